package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

const patience = time.Minute // limit of an operation

// A Tab is a page of a browser. Its methods fail the test if Chromium does not answer.
type Tab struct {
	t   testing.TB
	ctx context.Context
	off bool // JavaScript is off

	mu       sync.Mutex
	host     string // host:port of the last Open
	reports  []string
	requests []string
}

// observe records what the page reports. Chromium calls it in the order of events.
func (t *Tab) observe(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	report := func(format string, args ...any) { t.reports = append(t.reports, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		texts := make([]string, len(e.Args))
		for i, arg := range e.Args {
			texts[i] = string(arg.Value) + arg.Description
		}
		report("console.%s: %s", e.Type, strings.Join(texts, " "))
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		report("exception: %s", text)
	case *log.EventEntryAdded:
		report("log: %s: %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *audits.EventIssueAdded:
		if security[e.Issue.Code] {
			details, _ := json.Marshal(e.Issue.Details) // a report without details is still a report
			report("issue: %s: %s", e.Issue.Code, details)
		}
	case *page.EventJavascriptDialogOpening:
		report("dialog: %s", e.Message)
		go func() { // an open dialog stops the page
			_, _ = chromedp.Call(t.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, e.Request.URL)
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Scheme != "blob" && u.Host != t.host {
			report("request to another host: %s", e.Request.URL)
		}
	}
}

// security has the kinds of issues that concern the policies of a page.
var security = map[audits.InspectorIssueCode]bool{
	audits.InspectorIssueCodeContentSecurityPolicyIssue: true,
	audits.InspectorIssueCodeBlockedByResponseIssue:     true,
	audits.InspectorIssueCodeCookieIssue:                true,
	audits.InspectorIssueCodeCorsIssue:                  true,
	audits.InspectorIssueCodeMixedContentIssue:          true,
	audits.InspectorIssueCodeQuirksModeIssue:            true,
	audits.InspectorIssueCodeDeprecationIssue:           true,
}

// Open opens a URL and waits until it has loaded.
func (t *Tab) Open(address string) {
	t.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.t.Fatal(err)
	}
	t.mu.Lock()
	t.host = u.Host
	t.mu.Unlock()
	t.do(chromedp.Navigate(address))
}

// Back returns to the page before. Wait for something of it: it need not load again.
func (t *Tab) Back() {
	t.t.Helper()
	Eval[int](t, "setTimeout(() => history.back()), 0") // the answer comes before the page goes
}

// URL returns the address of the page.
func (t *Tab) URL() string {
	t.t.Helper()
	return Eval[string](t, "location.href")
}

// Press presses keys one after the other: characters, and the keys of package kb of chromedp.
func (t *Tab) Press(keys string) {
	t.t.Helper()
	for _, key := range keys {
		events := kb.Encode(key)
		if len(events) == 3 { // down, character, up: as one, so that a page can prevent the character
			events[0].Text = events[1].Text
			events = []*input.DispatchKeyEventParams{events[0], events[2]}
		}
		for _, event := range events {
			call(t, input.DispatchKeyEvent, *event)
		}
	}
}

// Click clicks the first element that matches a selector.
func (t *Tab) Click(selector string) {
	t.t.Helper()
	t.do(chromedp.Click(chromedp.CSS(selector)))
}

func (t *Tab) do(action chromedp.Action[chromedp.Void]) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, action); err != nil {
		t.t.Fatal(err)
	}
}

// Eval returns the value of a JavaScript expression in the page; it waits for a promise.
func Eval[T any](t *Tab, expression string) T {
	t.t.Helper()
	value, err := eval[T](t, 0, expression)
	if err != nil {
		t.t.Fatalf("evaluating %.200s: %v", expression, err)
	}
	return value
}

// eval evaluates an expression in a world of the page; 0 is that of its own scripts.
func eval[T any](t *Tab, world runtime.ExecutionContextID, expression string) (value T, err error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	yes := true
	result, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: expression, ContextID: world, AwaitPromise: &yes, ReturnByValue: &yes, Silent: &yes,
	})
	if err != nil {
		return value, err
	}
	if e := result.ExceptionDetails; e != nil {
		if e.Exception != nil {
			return value, errors.New(e.Exception.Description)
		}
		return value, errors.New(e.Text)
	}
	if len(result.Result.Value) == 0 {
		return value, fmt.Errorf("the value is %s", result.Result.Type)
	}
	return value, json.Unmarshal(result.Result.Value, &value)
}

// Wait waits until the document is parsed and a JavaScript expression is true, also across navigations.
func (t *Tab) Wait(expression string) {
	t.t.Helper()
	err := eventually.Within(t.t.Context(), patience, func() error {
		value, err := eval[bool](t, 0, "document.readyState !== 'loading' && Boolean("+expression+")")
		if err == nil && !value {
			err = errors.New("it is false")
		}
		return err
	})
	if err != nil {
		t.t.Fatalf("waiting for %s at %s: %v", expression, t.URL(), err)
	}
}

// Reports returns what the page reported since the last call: console entries, exceptions, violations of policies, dialogs, and
// requests to other hosts.
func (t *Tab) Reports() []string {
	t.t.Helper()
	Eval[int](t, "0") // all events before it have arrived
	t.mu.Lock()
	defer t.mu.Unlock()
	reports := t.reports
	t.reports = nil
	return reports
}

// Requests returns the URLs that the tab requested since it was opened.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// isolated returns a world of the page that shares its document, but neither its scripts nor its policies.
func (t *Tab) isolated() runtime.ExecutionContextID {
	t.t.Helper()
	frame := cdp.FrameID(chromedp.FromContext(t.ctx).Target.TargetID)
	return call(t, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: frame, WorldName: "test"}).ExecutionContextID
}
