package publish

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// damage damages the snapshot's validation file wherever it has a text.
func (b *packageBuilder) damage(text string) {
	b.t.Helper()
	name := filepath.Join(b.dir, "snapshots", b.snapshot.Key(), "packages")
	content, err := os.ReadFile(name)
	must.Succeed(b.t, err)
	if !bytes.Contains(content, []byte(text)) {
		b.t.Fatalf("the validation file has no %s", text)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	must.Succeed(b.t, err)
	defer f.Close()
	_, err = f.Write(bytes.ReplaceAll(content, []byte(text), bytes.ToUpper([]byte(text)))) // in place, as a disk does it
	must.Succeed(b.t, err)
}

// A damaged validation file is rebuilt once, not for each package.
func TestRevalidatesDamagedFileOnce(t *testing.T) {
	b := newBuilder(t, sampleCatalog(t))
	known := newValidated(t.Context(), b.Store, b.snapshot)
	b.damage(`"DefaultChannel"`)
	for _, version := range b.snapshot.Packages() {
		if valid, err := known.load(version.Name); err != nil || valid.Name != version.Name || valid.DefaultChannel == "" {
			t.Errorf("got %+v, %v of %s", valid, err, version.Name)
		}
	}
	b.damage(`"DefaultChannel"`)
	if _, err := known.load(b.snapshot.Packages()[0].Name); err == nil {
		t.Error("the packages were validated more than once")
	}
}

// Content that is not validated yet is not validated here.
func TestRevalidatesDamagedFileOnly(t *testing.T) {
	known := validated{revalidate: func(cause error) error { t.Errorf("validated again after %v", cause); return nil }}
	if _, err := readOrRevalidate(known, func() (int, error) { return 0, store.ErrNotValidated }); !errors.Is(err, store.ErrNotValidated) {
		t.Errorf("got error %v", err)
	}
}

// A panic while building one OperatorPackage does not end the process, and the published object stays.
func TestBuildPanics(t *testing.T) {
	p := &run{known: validated{}} // without a snapshot, which panics
	if err := p.ensure(t.Context(), "foo", "", &metav1.PartialObjectMetadata{}); err == nil || !strings.Contains(err.Error(), "panic: ") {
		t.Errorf("got the error %v", err)
	}
	if len(p.invalid) > 0 || len(p.failed) > 0 { // for which what is published would have been deleted
		t.Errorf("the package counts as invalid (%v), or the API server is blamed (%v)", p.invalid, p.failed)
	}
}
