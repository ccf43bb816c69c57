package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// daemon is a running catalogd.
type daemon struct {
	*process.Child
	content, health, metrics string // host:port
	dataDir                  string
	unpackings               int // that logged has returned
}

// startDaemon starts catalogd on a data directory, without waiting until it is ready.
func (e *env) startDaemon(dataDir, kubeconfig string, more ...string) (*daemon, error) {
	addresses, err := process.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		return nil, err
	}
	e.daemons++
	d := &daemon{content: addresses[0], health: addresses[1], metrics: addresses[2], dataDir: dataDir}
	args := []string{
		"--kubeconfig", kubeconfig, "--namespace", namespace, "--data-dir", dataDir,
		"--content-bind-address", d.content, "--external-url", "http://" + d.content,
		"--health-bind-address", d.health, "--metrics-bind-address", d.metrics, "--log-format", "text",
	}
	log := filepath.Join(e.dir, fmt.Sprintf("catalogd-%d.log", e.daemons))
	d.Child, err = process.Start("catalogd", log, e.catalogd, append(args, more...)...)
	return d, err
}

// freshDaemon starts catalogd with an empty data directory and waits until it is ready and idle.
func (e *env) freshDaemon(ctx context.Context, more ...string) (*daemon, error) {
	dir, err := os.MkdirTemp(e.dir, "data-")
	if err != nil {
		return nil, err
	}
	d, err := e.startDaemon(dir, e.cluster.DaemonKubeconfig, more...)
	if err != nil {
		return nil, err
	}
	err = process.Every(ctx, 20*time.Millisecond, func() (bool, error) {
		_, err := fetch(ctx, "http://"+d.health+"/readyz")
		return err == nil, d.Ended()
	})
	if err == nil {
		err = settle(ctx, d.PID())
	}
	if err != nil {
		d.Kill()
		return nil, err
	}
	return d, nil
}

// discard kills the daemon and removes its data.
func (d *daemon) discard() {
	d.Kill()
	_ = os.RemoveAll(d.dataDir) // the directory of the run is removed at its end
}

func (d *daemon) all(catalog string) string { return "/catalogs/" + catalog + "/api/v1/all" }

// logged returns the duration of the next unpacking, from catalogd's log.
func (d *daemon) logged(ctx context.Context) (time.Duration, error) {
	pattern := regexp.MustCompile(`(?m)\bmsg=unpacked\b.*\btook=(\S+)`)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("no duration of unpacking in catalogd's log"))
	defer cancel()
	var took time.Duration
	err := process.Every(ctx, 10*time.Millisecond, func() (bool, error) {
		text, err := os.ReadFile(d.Log)
		if err != nil {
			return false, err
		}
		matches := pattern.FindAllSubmatch(text, -1)
		if len(matches) <= d.unpackings {
			return false, d.Ended()
		}
		took, err = time.ParseDuration(string(matches[d.unpackings][1]))
		d.unpackings++
		return true, err
	})
	return took, err
}

// served waits until /all of a catalog answers 200 with another ETag than before, and returns the ETag.
func (d *daemon) served(ctx context.Context, catalog, before string) (etag string, err error) {
	const interval = 4 * time.Millisecond // costs a few percent of a processor
	url := "http://" + d.content + d.all(catalog)
	err = process.Every(ctx, interval, func() (bool, error) {
		header, status, err := head(ctx, url, nil)
		if err != nil {
			return false, err
		}
		etag = header.Get("ETag")
		if status == http.StatusOK && etag != before {
			return true, nil
		}
		return false, d.Ended()
	})
	return etag, err
}

// compressed waits until /all is available in all encodings and all background work is done.
func (d *daemon) compressed(ctx context.Context, catalog string) error {
	if err := d.encoded(ctx, catalog); err != nil {
		return err
	}
	return settle(ctx, d.PID())
}

// encoded waits until /all is available in the encodings that are made in the background.
func (d *daemon) encoded(ctx context.Context, catalog string) error {
	for _, encoding := range []string{"zstd", "gzip"} {
		err := process.Every(ctx, 50*time.Millisecond, func() (bool, error) {
			header, _, err := head(ctx, "http://"+d.content+d.all(catalog), map[string]string{"Accept-Encoding": encoding})
			return err == nil && header.Get("Content-Encoding") == encoding, errors.Join(err, d.Ended())
		})
		if err != nil {
			return fmt.Errorf("waiting for /all as %s: %w", encoding, err)
		}
	}
	return nil
}

var plainClient = &http.Client{Transport: &http.Transport{DisableCompression: true, Proxy: nil}}

// ask sends a request without a body; the caller closes the body of the response.
func ask(ctx context.Context, method, url string, header map[string]string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil) //nolint:gosec // G704: the URL is of a program that this one started
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	return plainClient.Do(request) //nolint:gosec // G704: as above
}

func head(ctx context.Context, url string, header map[string]string) (http.Header, int, error) {
	response, err := ask(ctx, http.MethodHead, url, header)
	if err != nil {
		return nil, 0, err
	}
	return response.Header, response.StatusCode, response.Body.Close()
}

// fetch returns the body of a reply with status 200.
func fetch(ctx context.Context, url string) (string, error) {
	response, err := ask(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d", url, response.StatusCode)
	}
	return string(text), err
}
