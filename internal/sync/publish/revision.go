package publish

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// reference is a catalog whose packages use every field of an OperatorPackage and every rule of the builder.
//
//go:embed reference.jsonl
var reference []byte

// revision identifies the code that makes OperatorPackages, by what it makes of the reference catalog: if that changes,
// so does every content hash, and the objects of earlier releases are written again. It is computed once.
var revision = sync.OnceValue(func() string { return revisionOf(buildReference()) })

func revisionOf(reference []built) string {
	hash := sha256.New()
	encoder := json.NewEncoder(hash)
	for _, pkg := range reference {
		_ = encoder.Encode(pkg) // strings, numbers and booleans: it cannot fail
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// built is the builder's result for a package.
type built struct {
	Object any
	Err    string
}

// buildReference builds the packages of the reference catalog.
func buildReference() (out []built) {
	b := builder{
		catalog: catalog{
			Name: "reference", Labels: map[string]string{"team": "a", "catalog": "overridden", "not legal": "x"},
			Display: "The Reference", Publisher: "Us", Priority: 5, Namespace: "catalogd-system", BaseURL: "https://catalogd.example",
		},
		owner: metav1.OwnerReference{Kind: "CatalogSource", Name: "reference"},
	}
	anonymous := builder{catalog: catalog{Name: "anonymous"}}
	for _, name := range []string{"full", "plain", "hidden"} {
		for _, b := range []builder{b, anonymous} {
			object, err := b.buildFrom(name, reference)
			if err != nil {
				out = append(out, built{Err: err.Error()})
				continue
			}
			out = append(out, built{Object: object})
		}
	}
	return out
}

// buildFrom builds a package from the lines of a catalog.
func (b builder) buildFrom(name string, catalog []byte) (any, error) {
	var lines [][]byte
	bundles := map[string][]byte{}
	for line := range bytes.Lines(catalog) {
		var keys struct{ Schema, Package, Name string }
		if err := json.Unmarshal(line, &keys); err != nil {
			return nil, err
		}
		if pkg, _ := fbc.PackageOf(keys.Schema, keys.Package, keys.Name); pkg != name {
			continue
		}
		lines = append(lines, bytes.TrimSpace(line))
		if keys.Schema == fbc.SchemaBundle {
			bundles[keys.Name] = line
		}
	}
	pkg, err := fbc.LoadPackage(name, func(yield func([]byte, error) bool) {
		for _, line := range lines {
			if !yield(line, nil) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	heads := map[string]head{}
	for name, bundle := range bundles {
		heads[name] = headOf(name, bundle, pkg)
	}
	return b.build(pkg, heads)
}
