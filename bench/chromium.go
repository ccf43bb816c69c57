package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// The slow machine and network of measurements in Chromium.
const (
	slowCPU     = 4
	slowLatency = 150         // ms
	slowBytes   = 1.6e6 / 8   // a second
	quietAfter  = time.Second // without requests, a page is complete
	paintsLimit = time.Minute // of a page
)

// chromium is a running Chromium.
type chromium struct {
	ctx  context.Context //nolint:containedctx // chromedp keeps its browser there
	stop context.CancelFunc
}

// startChromium starts CHROMIUM, or a Chromium on the PATH.
func startChromium(ctx context.Context) (*chromium, error) {
	program := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && program == "" {
			program = found
		}
	}
	if program == "" {
		return nil, skip("Chromium not found: install Debian's package chromium, or set CHROMIUM to the path of the program")
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(program)}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "no-first-run", "no-default-browser-check", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-extensions", "disable-dev-shm-usage", "disable-background-timer-throttling",
		"disable-backgrounding-occluded-windows", "disable-renderer-backgrounding",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, endProgram := chromedp.NewExecAllocator(ctx, options...)
	quiet := func(string, ...any) {} // a Chromium newer than the known protocol
	ctx, endBrowser := chromedp.NewContext(ctx, chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	c := &chromium{ctx, func() { endBrowser(); endProgram() }}
	if err := chromedp.Do(ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("starting %s: %w; set CHROMIUM to the path of a Chromium", program, err)
	}
	return c, nil
}

// tab is a tab in a profile of its own, where nothing is cached.
type tab struct {
	ctx   context.Context //nolint:containedctx // likewise
	close context.CancelFunc

	mu      sync.Mutex
	bytes   float64                      // received
	pending map[network.RequestID]string // URLs
	changed time.Time                    // the last start or end of a request
}

// paints are the times of a page in ms since the navigation, and the bytes that it received, with headers.
type paints struct{ First, Largest, bytes float64 }

// tab opens an empty tab of a desktop, maybe on a slow machine.
func (c *chromium) tab(slow bool) (*tab, error) {
	t := &tab{pending: map[network.RequestID]string{}}
	t.ctx, t.close = chromedp.NewContext(c.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(t.observe))
	err := chromedp.Do(t.ctx)
	if err == nil {
		_, err = chromedp.Call(t.ctx, emulation.SetDeviceMetricsOverride,
			emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 800, DeviceScaleFactor: 1})
	}
	if err == nil { // pages that nobody sees are not painted
		_, err = chromedp.Call(t.ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	}
	if err == nil && slow {
		_, err = chromedp.Call(t.ctx, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: slowCPU})
	}
	if err == nil && slow {
		all := &network.Conditions{Latency: slowLatency, DownloadThroughput: slowBytes, UploadThroughput: slowBytes}
		_, err = chromedp.Call(t.ctx, network.EmulateNetworkConditionsByRule,
			network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{all}})
	}
	if err != nil {
		t.close()
		return nil, fmt.Errorf("opening a tab in Chromium: %w", err)
	}
	return t, nil
}

// observe counts requests and bytes. A feed of events does not end and does not count.
func (t *tab) observe(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if e.Type != network.ResourceTypeEventSource {
			t.pending[e.RequestID] = e.Request.URL
			t.changed = time.Now()
		}
	case *network.EventLoadingFinished:
		t.bytes += e.EncodedDataLength
		t.done(e.RequestID)
	case *network.EventLoadingFailed:
		t.done(e.RequestID)
	}
}

func (t *tab) done(id network.RequestID) {
	delete(t.pending, id)
	t.changed = time.Now()
}

// paintsOf resolves to the times of the first and the largest paint until now.
const paintsOf = `new Promise((done) => new PerformanceObserver((list) => done({
	First: performance.getEntriesByName("first-contentful-paint")[0].startTime,
	Largest: list.getEntries().at(-1).startTime,
})).observe({ type: "largest-contentful-paint", buffered: true }))`

// load loads a page and waits until it is complete.
func (t *tab) load(navigate chromedp.Action[chromedp.Void]) (p paints, err error) {
	ctx, cancel := context.WithTimeout(t.ctx, paintsLimit)
	defer cancel()
	t.mu.Lock()
	t.bytes = 0
	t.mu.Unlock()
	if err := chromedp.Do(ctx, navigate); err != nil {
		return p, fmt.Errorf("loading a page in Chromium: %w", err)
	}
	err = process.Every(ctx, quietAfter/10, func() (bool, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		return len(t.pending) == 0 && time.Since(t.changed) > quietAfter, nil
	})
	if err == nil {
		p, err = chromedp.Run(ctx, chromedp.Evaluate[paints](paintsOf, chromedp.EvalAwaitPromise))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p.bytes = t.bytes
	if err != nil {
		err = fmt.Errorf("measuring a page in Chromium: %w; pending requests: %v", err, slices.Collect(maps.Values(t.pending)))
	}
	return p, err
}

// visit loads a page with nothing cached.
func (c *chromium) visit(address string, slow bool) (paints, error) {
	t, err := c.tab(slow)
	if err != nil {
		return paints{}, err
	}
	defer t.close()
	return t.load(chromedp.Navigate(address))
}
