package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestUpdateWritesOnlyChangedPackages updates a catalog in one package: one object is written, and a client that was reading the
// old content reads it to its end.
func TestUpdateWritesOnlyChangedPackages(t *testing.T) {
	const changed = "skupper-operator"
	dir := largeCatalog(t)
	w := newWorld(t, shared)
	ref, first := w.registry.push(t, "sample", catalogImage(t, dir))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", first)
	url := w.contentURL("sample", "/api/v1/all")
	before, objects := get(t, url), w.packages(t, "sample")

	reader := openSlowly(t, w.content, "/catalogs/sample/api/v1/all")
	replaceInFile(t, filepath.Join(dir, changed, "catalog.json"), `"displayName": "`, `"displayName": "Changed `)
	_, second := w.registry.push(t, "sample", catalogImage(t, dir))
	writes := w.writes(t)["operatorpackages"]
	w.requestPoll(t, "sample", "changed")
	w.waitReady(t, "sample", second)

	after := get(t, url)
	if after.header.Get("ETag") == before.header.Get("ETag") || bytes.Equal(after.body, before.body) {
		t.Error("the new digest's content is not served")
	}
	if old := readSlowly(t, reader); !bytes.Equal(old, before.body) {
		t.Errorf("a reader in the middle of the old content got %d bytes of something else; the old content has %d, the new %d",
			len(old), len(before.body), len(after.body))
	}
	checkOnlyChanged(t, objects, w.packages(t, "sample"), changed+".sample")
	if n := w.writes(t)["operatorpackages"] - writes; n != 1 {
		t.Errorf("%d requests to write OperatorPackages, want 1", n)
	}
}

func checkOnlyChanged(t *testing.T, before, after map[string]unstructured.Unstructured, changed string) {
	t.Helper()
	if len(before) != len(after) {
		t.Errorf("%d packages before, %d after", len(before), len(after))
	}
	for name, object := range after {
		old := before[name]
		same := old.GetResourceVersion() == object.GetResourceVersion()
		if name == changed && same {
			t.Errorf("%s changed in the catalog, yet its object was not written", name)
		}
		if name != changed && !same {
			t.Errorf("%s did not change in the catalog, yet its object was written: %v", name, differences("", old.Object, object.Object))
		}
	}
}

// largeCatalog copies the sample catalog and adds 24 MiB of custom blobs, more than all buffers between catalogd
// and a reader hold. The text is random, so that limits on compression do not apply.
func largeCatalog(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(sampleCatalog)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "noise.json"), noise(96), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// noise makes custom blobs of about 256 KiB of random text each.
func noise(blobs int) []byte {
	random := rand.New(rand.NewSource(1))
	text := make([]byte, 128<<10)
	var file bytes.Buffer
	for i := range blobs {
		_, _ = random.Read(text) // never fails
		fmt.Fprintf(&file, "{\"schema\":\"example.com.noise\",\"name\":\"noise-%d\",\"data\":%q}\n", i, hex.EncodeToString(text))
	}
	return file.Bytes()
}

// tinyCatalog is a catalog of one custom blob.
func tinyCatalog(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	content := fmt.Sprintf(`{"schema":"example.com.text","name":"text","text":%q}`, text)
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func replaceInFile(t *testing.T, path, old, replacement string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(content, []byte(old), []byte(replacement))
	if bytes.Equal(changed, content) {
		t.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}

// openSlowly sends a GET over a connection with a small receive buffer and reads only the header, so that the
// server still has to send most of the body.
func openSlowly(t *testing.T, address, path string) *http.Response {
	t.Helper()
	dialer := net.Dialer{Timeout: patience, Control: func(_, _ string, conn syscall.RawConn) (err error) {
		ctlErr := conn.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		if err == nil {
			err = ctlErr
		}
		return err
	}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, ReadBufferSize: 4096}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: patience + 30*time.Second}
	response, err := client.Get("http://" + address + path)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: status %d", path, response.StatusCode)
	}
	return response
}

// readSlowly reads the rest of the body.
func readSlowly(t *testing.T, response *http.Response) []byte {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("a reader in the middle of the content was cut off after %d bytes: %v", len(body), err)
	}
	return body
}
