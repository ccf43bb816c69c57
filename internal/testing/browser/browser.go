// Package browser runs Chromium for tests of web pages: tabs with a viewport and a theme, what a page reports while it is open, and
// the checks of axe-core.
package browser

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// A Browser is a profile of a running Chromium: its tabs share cookies, storage and connections.
type Browser struct {
	ctx context.Context
}

// flags keep Chromium from requests of its own, which a test would have to tell from those of a page. No name resolves but
// localhost, so a page reaches no other host.
var flags = map[string]any{
	"headless": true, "no-sandbox": true, "disable-gpu": true, "disable-quic": true, "no-first-run": true,
	"no-default-browser-check": true, "disable-background-networking": true, "disable-component-update": true, "disable-sync": true,
	"disable-extensions": true, "disable-dev-shm-usage": true, "disable-background-timer-throttling": true,
	"disable-backgrounding-occluded-windows": true, "disable-renderer-backgrounding": true, "disable-ipc-flooding-protection": true,
	"ignore-certificate-errors": true, "force-color-profile": "srgb", "password-store": "basic", "use-mock-keychain": true,
	"host-resolver-rules": "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
}

// Start starts Chromium with an empty profile; it ends with the test. The test is skipped on a machine without Chromium. In CI, it
// fails.
func Start(t testing.TB) *Browser {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(program(t))}
	for name, value := range flags {
		options = append(options, chromedp.Flag(name, value))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	// Chromium may be newer than the protocol that chromedp knows. It reports what it does not understand as an error.
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}), chromedp.WithLogf(func(string, ...any) {}))
	t.Cleanup(cancel)
	must.Succeed(t, chromedp.Do(ctx))
	return &Browser{ctx}
}

// program returns the path of Chromium: CHROMIUM, or the one on the PATH.
func program(t testing.TB) string {
	t.Helper()
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		Lacks(t, "Chromium not found; install Debian's package chromium, or set CHROMIUM to the path of the program")
	}
	return path
}

// Lacks skips a test on a machine that lacks something. In CI, which installs everything, it fails the test.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Profile returns another, empty profile of the same Chromium. It ends with the test.
func (b *Browser) Profile(t testing.TB) *Browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	must.Succeed(t, chromedp.Do(ctx))
	return &Browser{ctx}
}

// Options are the properties of a tab that a page can observe. The zero value is a desktop in the light theme.
type Options struct {
	Width, Height int64             // 1280 x 800 by default
	Media         map[string]string // media features, such as prefers-color-scheme
	NoScript      bool              // JavaScript is off
}

// Dark is the dark theme.
var Dark = map[string]string{"prefers-color-scheme": "dark"}

// Light is the light theme.
var Light = map[string]string{"prefers-color-scheme": "light"}

// Tab opens an empty tab. It closes with the test.
func (b *Browser) Tab(t testing.TB, o Options) *Tab {
	t.Helper()
	tab := &Tab{t: t, off: o.NoScript}
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithListener(tab.observe))
	t.Cleanup(cancel)
	tab.ctx = ctx
	must.Succeed(t, chromedp.Do(ctx))
	call(tab, audits.Enable, cdp.Empty{})
	call(tab, accessibility.Enable, cdp.Empty{})
	call(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	tab.disableScripts(o.NoScript)
	if o.Width == 0 {
		o.Width, o.Height = 1280, 800
	}
	tab.Resize(o.Width, o.Height)
	tab.SetMedia(o.Media)
	return tab
}

// Resize changes the size of the viewport. One narrower than 600 pixels is a phone.
func (t *Tab) Resize(width, height int64) {
	t.t.Helper()
	call(t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
}

// SetMedia sets media features.
func (t *Tab) SetMedia(features map[string]string) {
	t.t.Helper()
	var p emulation.SetEmulatedMediaParams
	for name, value := range features {
		p.Features = append(p.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	call(t, emulation.SetEmulatedMedia, p)
}

// SetPrint emulates the media type print. SetMedia ends it.
func (t *Tab) SetPrint() {
	t.t.Helper()
	call(t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
}

func (t *Tab) disableScripts(disabled bool) {
	t.t.Helper()
	call(t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: disabled})
}

// Picture returns the viewport as PNG.
func (t *Tab) Picture() []byte {
	t.t.Helper()
	return call(t, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}).Data
}

// call runs a command of the DevTools protocol in a tab.
func call[P, R any](t *Tab, command cdp.Command[P, R], params P) R {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		t.t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}
