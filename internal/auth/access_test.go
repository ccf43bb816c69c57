package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// reviewer answers SubjectAccessReviews in place of an API server.
type reviewer struct {
	answer func() (authorizationv1.SubjectAccessReviewStatus, error)
	asked  []authorizationv1.SubjectAccessReviewSpec
}

func (r *reviewer) Create(
	_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	r.asked = append(r.asked, review.Spec)
	status, err := r.answer()
	return &authorizationv1.SubjectAccessReview{Status: status}, err
}

// always returns a reviewer with one answer, and the accessReviews that ask it.
func always(status authorizationv1.SubjectAccessReviewStatus, err error) (*accessReviews, *reviewer) {
	r := &reviewer{answer: func() (authorizationv1.SubjectAccessReviewStatus, error) { return status, err }}
	return &accessReviews{client: r, answers: cache.NewLRUExpireCache(maxAnswers)}, r
}

func read(path string, groups ...string) Question {
	return Question{User: &user.DefaultInfo{Name: "alice", Groups: groups}, Verb: "get", Path: path}
}

func TestDecisions(t *testing.T) {
	type status = authorizationv1.SubjectAccessReviewStatus
	for name, c := range map[string]struct {
		question Question
		status   status
		err      error
		want     Decision
		wantErr  string
		asked    int
	}{
		"allowed":                {read("/a"), status{Allowed: true, Reason: "by a role"}, nil, Decision{Allowed: true, Reason: "by a role"}, "", 1},
		"denied":                 {read("/a"), status{Denied: true, Reason: "by a webhook"}, nil, Decision{Reason: "by a webhook"}, "", 1},
		"no opinion":             {read("/a"), status{Reason: "no rule"}, nil, Decision{Reason: "no rule"}, "", 1},
		"allowed, with an error": {read("/a"), status{Allowed: true, EvaluationError: "role not found"}, nil, Decision{Allowed: true}, "", 1},
		"no opinion, with an error": {
			read("/a"), status{EvaluationError: "role not found"}, nil, Decision{}, "", 1,
		},
		"allowed and denied": {read("/a"), status{Allowed: true, Denied: true}, nil, Decision{}, "allows and denies it at once", 1},
		"error": {read("/a"), status{Allowed: true}, errors.New("connection refused"), Decision{},
			"creating a SubjectAccessReview: connection refused", 1},
		"system:masters":              {read("/a", "b", "system:masters"), status{Denied: true}, nil, Decision{Allowed: true}, "", 0},
		"a group of a similar name":   {read("/a", "system:masters2", "system:Masters"), status{}, nil, Decision{}, "", 1},
		"a user with a group as name": {Question{User: &user.DefaultInfo{Name: "system:masters"}, Verb: "get", Path: "/a"}, status{}, nil, Decision{}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, r := always(c.status, c.err)
			for range 2 {
				got, err := a.decide(t.Context(), c.question)
				if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("got %+v, error %v, want %+v, %s", got, err, c.want, c.wantErr)
				}
				if c.err == nil && len(r.asked) != c.asked { // an error is not cached
					t.Errorf("asked %d times, want %d", len(r.asked), c.asked)
				}
			}
		})
	}
}

// A cached answer does not outlive its time, however often it is used.
func TestDecisionsExpire(t *testing.T) {
	for name, c := range map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		ttl    time.Duration
	}{
		"allowed":            {authorizationv1.SubjectAccessReviewStatus{Allowed: true}, 5 * time.Minute},
		"denied":             {authorizationv1.SubjectAccessReviewStatus{Denied: true}, 30 * time.Second},
		"no opinion":         {authorizationv1.SubjectAccessReviewStatus{}, 30 * time.Second},
		"allowed and denied": {authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, r := always(c.status, nil)
				for _, step := range []struct {
					after time.Duration
					asked int
				}{{0, 1}, {c.ttl / 2, 1}, {c.ttl / 2, 1}, {1, 2}, {c.ttl, 2}, {1, 3}} { // a hit does not prolong the time
					time.Sleep(step.after)
					_, _ = a.decide(t.Context(), read("/a"))
					if len(r.asked) != step.asked {
						t.Errorf("asked %d times, want %d", len(r.asked), step.asked)
					}
				}
			})
		})
	}
}

// Each of these questions differs from the others in one part.
func TestQuestionsAreNotMixedUp(t *testing.T) {
	who := func(change func(*user.DefaultInfo)) Question {
		u := &user.DefaultInfo{Name: "alice", UID: "1", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v"}, "l": {"w"}}}
		change(u)
		return Question{User: u, Verb: "get", Path: "/catalogs/a"}
	}
	same := who(func(*user.DefaultInfo) {})
	questions := []Question{
		same,
		{User: same.User, Verb: "get", Path: "/catalogs/b"},
		{User: same.User, Verb: "get", Path: "/catalogs/a/"},
		{User: same.User, Verb: "get", Path: `/catalogs/a","verb":"get`},
		{User: same.User, Verb: "list", Path: "/catalogs/a"},
		who(func(u *user.DefaultInfo) { u.Name = "bob" }),
		who(func(u *user.DefaultInfo) { u.Name = "Alice" }),
		who(func(u *user.DefaultInfo) { u.UID = "2" }),
		who(func(u *user.DefaultInfo) { u.Groups = []string{"a"} }),
		who(func(u *user.DefaultInfo) { u.Groups = []string{"ab"} }),
		who(func(u *user.DefaultInfo) { u.Groups = []string{"a", "b", "c"} }),
		who(func(u *user.DefaultInfo) { u.Groups = []string{`a","b`} }),
		who(func(u *user.DefaultInfo) { u.Groups = nil }),
		who(func(u *user.DefaultInfo) { u.Extra = nil }),
		who(func(u *user.DefaultInfo) { u.Extra = map[string][]string{"k": {"w"}, "l": {"v"}} }),
		who(func(u *user.DefaultInfo) { u.Extra = map[string][]string{"k": {"v", "w"}} }),
	}
	a, r := always(authorizationv1.SubjectAccessReviewStatus{}, nil)
	for round := range 2 {
		for i, q := range questions {
			r.answer = func() (authorizationv1.SubjectAccessReviewStatus, error) {
				return authorizationv1.SubjectAccessReviewStatus{Allowed: i%2 == 0, Reason: fmt.Sprint(i)}, nil
			}
			got, err := a.decide(t.Context(), q)
			must.Succeed(t, err)
			if want := (Decision{Allowed: i%2 == 0, Reason: fmt.Sprint(i)}); got != want {
				t.Errorf("round %d: %d: got %+v, want %+v", round, i, got, want)
			}
		}
	}
	if len(r.asked) != len(questions) {
		t.Errorf("asked %d times, want %d", len(r.asked), len(questions))
	}
}

// Clients choose paths, and an authority the groups of a user. JSON has 6 bytes for some characters. The memory of an answer depends on
// neither. The oldest answer makes room for a new one.
func TestCacheIsBounded(t *testing.T) {
	for _, c := range []string{"a", "<", "\x00", "\xff"} {
		a, r := always(authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil)
		for range 2 {
			got, err := a.decide(t.Context(), read("/"+strings.Repeat(c, 9000), strings.Repeat("b", 9000)))
			must.Succeed(t, err)
			if !got.Allowed {
				t.Errorf("%q: got %+v", c, got)
			}
		}
		if len(r.asked) != 1 {
			t.Errorf("%q: asked %d times", c, len(r.asked))
		}
		for _, key := range a.answers.Keys() {
			if size := len(key.(string)); size > 64 {
				t.Errorf("%q: a key has %d bytes", c, size)
			}
		}
	}
	a, r := always(authorizationv1.SubjectAccessReviewStatus{}, nil)
	for i := range maxAnswers + 1 {
		_, err := a.decide(t.Context(), read(fmt.Sprint("/", i)))
		must.Succeed(t, err)
	}
	for _, c := range []struct {
		path  string
		asked int
	}{{fmt.Sprint("/", maxAnswers), maxAnswers + 1}, {"/1", maxAnswers + 1}, {"/0", maxAnswers + 2}} {
		_, err := a.decide(t.Context(), read(c.path))
		must.Succeed(t, err)
		if len(r.asked) != c.asked {
			t.Errorf("%s: asked %d times, want %d", c.path, len(r.asked), c.asked)
		}
	}
}

func TestTransientErrorsAreRetried(t *testing.T) {
	reviews := schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}
	for name, c := range map[string]struct {
		err   error
		retry bool
	}{
		"500":                    {apierrors.NewInternalError(errors.New("etcd")), true},
		"504":                    {apierrors.NewTimeoutError("slow", 0), true},
		"504, with a delay":      {apierrors.NewServerTimeout(reviews, "create", 1), true},
		"429":                    {apierrors.NewTooManyRequestsError("slow down"), true},
		"a reset connection":     {&url.Error{Op: "Post", URL: "/", Err: syscall.ECONNRESET}, true},
		"a lost connection":      {&url.Error{Op: "Post", URL: "/", Err: errors.New("http2: client connection lost")}, true},
		"a refused connection":   {&url.Error{Op: "Post", URL: "/", Err: syscall.ECONNREFUSED}, false},
		"400":                    {apierrors.NewBadRequest("no"), false},
		"401":                    {apierrors.NewUnauthorized("no"), false},
		"403":                    {apierrors.NewForbidden(reviews, "", errors.New("no")), false},
		"503":                    {apierrors.NewServiceUnavailable("no"), false},
		"a limit of our own":     {&url.Error{Op: "Post", URL: "/", Err: ErrBusy}, false},
		"the end of the request": {context.Canceled, false},
	} {
		for attempt, want := range map[int]int{1: 1, 2: 2, 4: 4, 5: 4} { // the first successful one, and attempts
			if !c.retry {
				want = 1
			}
			t.Run(fmt.Sprintf("%s, until attempt %d", name, attempt), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, r := always(authorizationv1.SubjectAccessReviewStatus{}, nil)
					r.answer = func() (status authorizationv1.SubjectAccessReviewStatus, err error) {
						if len(r.asked) < attempt {
							return status, c.err
						}
						return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
					}
					got, err := a.decide(t.Context(), read("/a"))
					if got.Allowed != (attempt == want) || len(r.asked) != want {
						t.Errorf("got %+v after %d attempts, want %d", got, len(r.asked), want)
					}
					if attempt == want {
						must.Succeed(t, err)
					} else if !errors.Is(err, c.err) {
						t.Errorf("got error %v, want %v", err, c.err)
					}
				})
			})
		}
	}
}

// The end of a request ends the attempts.
func TestRetriesEndWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := apierrors.NewInternalError(errors.New("etcd"))
		a, r := always(authorizationv1.SubjectAccessReviewStatus{}, failure)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := a.decide(ctx, read("/a")); !errors.Is(err, failure) || len(r.asked) != 1 {
			t.Errorf("got error %v after %d attempts", err, len(r.asked))
		}
		<-ctx.Done()
		if _, err := a.decide(ctx, read("/a")); !errors.Is(err, context.DeadlineExceeded) || len(r.asked) != 1 {
			t.Errorf("got error %v after %d attempts", err, len(r.asked))
		}
	})
}

// A question is sent as JSON with all that is known about the user.
func TestQuestionOnTheWire(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var review struct{ Spec json.RawMessage }
		if err := json.Unmarshal(body, &review); err != nil {
			t.Error(err)
		}
		got = fmt.Sprintf("%s %s %s %s", r.Method, r.URL, r.Header["Content-Type"], review.Spec)
		reply(w, http.StatusCreated, authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}})
	}))
	defer server.Close()
	for name, contentType := range map[string]string{"default": "", "JSON": "application/json", "other": "application/vnd.kubernetes.protobuf"} {
		a, err := newAccessReviews(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: contentType}})
		must.Succeed(t, err)
		decision, err := a.decide(t.Context(), Question{Verb: "get", Path: "/catalogs/*/api/v1/all\xff", User: &user.DefaultInfo{
			Name: "alice", UID: "1", Groups: []string{"b", "a"}, Extra: map[string][]string{"k/l": {"v", "w"}},
		}})
		must.Succeed(t, err)
		want := `POST /apis/authorization.k8s.io/v1/subjectaccessreviews [application/json] ` +
			`{"nonResourceAttributes":{"path":"/catalogs/*/api/v1/all` + `\ufffd` +
			`","verb":"get"},"user":"alice","groups":["b","a"],"extra":{"k/l":["v","w"]},"uid":"1"}`
		if diff := cmp.Diff(want, got); diff != "" || !decision.Allowed {
			t.Errorf("%s: got %+v after (-want +got):\n%s", name, decision, diff)
		}
	}
}
