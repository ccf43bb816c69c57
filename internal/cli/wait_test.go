package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

func TestReadiness(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	deleted := metav1.NewTime(time.Unix(0, 0))
	tests := []struct {
		name               string
		ready, progressing metav1.Condition
		edit               func(*v1beta1.CatalogSource)
		done, failed       bool
		stage              string
	}{
		{name: "new", edit: func(c *v1beta1.CatalogSource) { c.Status = v1beta1.CatalogSourceStatus{} }, stage: unseen},
		{name: "changed", ready: metav1.Condition{Status: yes}, edit: func(c *v1beta1.CatalogSource) { c.Generation = 3 }, stage: unseen},
		{name: "unpacked for the first time", ready: metav1.Condition{Status: no, Reason: "Unpacking"}, progressing: metav1.Condition{Status: yes, Reason: "Unpacking"}, stage: "Unpacking"},
		{name: "ready", ready: metav1.Condition{Status: yes, Reason: "Succeeded"}, progressing: metav1.Condition{Status: yes, Reason: "Succeeded"}, done: true},
		{name: "suspended", ready: metav1.Condition{Status: no, Reason: "Unavailable"}, progressing: metav1.Condition{Status: no, Reason: "Suspended"}, done: true},
		{name: "not offered", ready: metav1.Condition{Status: no}, progressing: metav1.Condition{Status: no, Reason: "UserSpecifiedUnavailable"}, done: true},
		{name: "blocked", ready: metav1.Condition{Status: no, Reason: "BlobTooLarge"}, progressing: metav1.Condition{Status: no, Reason: "Blocked"}, failed: true},
		{name: "without a sound package", ready: metav1.Condition{Status: no, Reason: "InvalidPackages"}, progressing: metav1.Condition{Status: yes, Reason: "Succeeded"}, failed: true},
		{name: "no such image", ready: metav1.Condition{Status: no, Reason: "ImageNotFound"}, progressing: metav1.Condition{Status: yes, Reason: "Retrying"}, failed: true},
		{name: "registry away", ready: metav1.Condition{Status: no, Reason: "RegistryUnreachable"}, progressing: metav1.Condition{Status: yes, Reason: "Retrying"}, stage: "Trying again"},
		{name: "not published", ready: metav1.Condition{Status: no, Reason: "SyncFailed"}, progressing: metav1.Condition{Status: yes, Reason: "Succeeded"}, stage: "Trying again"},
		{name: "removed", ready: metav1.Condition{Status: yes}, edit: func(c *v1beta1.CatalogSource) { c.DeletionTimestamp = &deleted }, failed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &v1beta1.CatalogSource{}
			c.Generation, c.Status.ObservedGeneration = 2, 2
			tt.ready.Type, tt.progressing.Type = v1beta1.ReadyCondition, v1beta1.ProgressingCondition
			c.Status.Conditions = []metav1.Condition{tt.ready, tt.progressing}
			if tt.edit != nil {
				tt.edit(c)
			}
			got := readiness(c)
			if got.done != tt.done || (got.err != nil) != tt.failed || got.stage != tt.stage {
				t.Errorf("got %+v", got)
			}
		})
	}
	if readiness(nil).err == nil {
		t.Error("one that does not exist is waited for")
	}
}

// A catalog that was made anew under its name is not the one that is waited for, however well it is.
func TestWaiterTellsCatalogsApart(t *testing.T) {
	for _, tt := range []struct {
		name     string
		waitsFor types.UID
		c        *v1beta1.CatalogSource
		done     bool
	}{
		{"the same", "1", &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, true},
		{"another", "1", &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, false},
		{"any", "", &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, true},
		{"none, which the judge knows what to say of", "1", nil, true},
	} {
		w := waiter{name: "sample", uid: tt.waitsFor, judge: func(*v1beta1.CatalogSource) finding { return finding{done: true} }}
		got := w.find(tt.c)
		if got.done != tt.done || (got.err == nil) != tt.done {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// Nor is it refreshed or resumed: the API server is told which object is meant.
func TestChangesAreOfOneObject(t *testing.T) {
	is := v1beta1.CatalogSource{}
	is.Name, is.UID, is.Spec.Suspend = "sample", "1", true
	for _, args := range [][]string{{"refresh", "sample", "--wait"}, {"resume", "sample"}} {
		is.Spec.Suspend = args[0] == "resume"
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method != http.MethodPatch {
				_ = json.NewEncoder(w).Encode(is)
				return
			}
			var patch metav1.PartialObjectMetadata
			if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || patch.UID != "1" {
				t.Errorf("%q: the patch is of object %q, %v", args, patch.UID, err)
			}
			w.WriteHeader(http.StatusUnprocessableEntity)
			refused := field.Invalid(field.NewPath("metadata", "uid"), "1", "field is immutable") // as the API server has it
			status := apierrors.NewInvalid(schema.GroupKind{}, "sample", field.ErrorList{refused}).Status()
			status.APIVersion, status.Kind = "v1", "Status"
			_ = json.NewEncoder(w).Encode(status)
		}))
		code, _, stderr := run(t, append(args, "--server", server.URL)...)
		if code != exitFailure || !strings.Contains(stderr, `catalog "sample" was removed and made anew meanwhile`) {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
		server.Close()
	}
}

// A Secret that was made just before the catalog may reach catalogd after it.
func TestReadinessGivesAccessTime(t *testing.T) {
	c := &v1beta1.CatalogSource{}
	c.Status.Conditions = []metav1.Condition{
		{Type: v1beta1.ReadyCondition, Status: metav1.ConditionFalse, Reason: v1beta1.AccessInvalidReason},
		{Type: v1beta1.ProgressingCondition, Status: metav1.ConditionFalse, Reason: v1beta1.BlockedReason},
	}
	if got := readiness(c); got.grace == 0 || got.err == nil {
		t.Errorf("got %+v", got)
	}
}
