package catalogs

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"hash"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	opmproperty "github.com/operator-framework/operator-registry/alpha/property"
)

// generated has the statistics of a generated catalog.
type generated struct {
	Stats
	hash   hash.Hash
	zipped int64
}

func generate(t *testing.T, s Shape) generated {
	t.Helper()
	g := generated{hash: sha256.New()}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	err := s.Files(t.Context(), func(f File) error {
		g.Add(f.Stats)
		g.hash.Write([]byte(f.Path))
		g.hash.Write(f.Content)
		_, err := zip.Write(f.Content)
		return err
	})
	if err := errors.Join(err, zip.Close()); err != nil {
		t.Fatal(err)
	}
	g.zipped = int64(packed.Len())
	return g
}

// TestCommunityShape compares the plan with the measured real catalog. Writing all of it takes too long for a test.
func TestCommunityShape(t *testing.T) {
	plans := Community().plans()
	var channels, bundles int
	var bytes, inYAML, huge float64
	var sizes []float64
	names := map[string]bool{}
	for _, p := range plans {
		if p.bundles < 1 || p.channels < 1 || names[p.name] {
			t.Errorf("%+v", p)
		}
		names[p.name] = true
		size := float64(p.icon) + 1800 + 130*float64(p.bundles) + p.each*float64(p.bundles)
		channels, bundles, bytes, sizes = channels+p.channels, bundles+p.bundles, bytes+size, append(sizes, size)
		if p.yaml {
			inYAML += size
		}
		if p.huge {
			huge++
		}
	}
	if len(plans) != 319 || channels != 537 || bundles != 5625 || huge != 1 {
		t.Errorf("%d packages, %d of them huge, %d channels, %d bundles; want 319, 1, 537, 5625", len(plans), int(huge), channels, bundles)
	}
	slices.Sort(sizes)
	for what, within := range map[string][3]float64{ // minimum, actual, maximum
		"all":              {112e6, bytes, 117e6},
		"share of YAML":    {.11, inYAML / bytes, .13},
		"the largest":      {26e6, sizes[318], 28e6},
		"the next largest": {4e6, sizes[317], 6.5e6},
		"the median":       {70e3, sizes[159], 100e3},
		"a quarter":        {25e3, sizes[79], 50e3},
		"three quarters":   {180e3, sizes[239], 270e3},
	} {
		if within[1] < within[0] || within[1] > within[2] {
			t.Errorf("%s: %g, want %g to %g", what, within[1], within[0], within[2])
		}
	}
}

// TestWritten checks properties of the files, with a tenth of the community catalog without its huge package.
func TestWritten(t *testing.T) {
	g := generate(t, Shape{Packages: 32, Channels: 54, Bundles: 562, Bytes: 8_700_000})
	if g.Packages != 32 || g.Channels != 54 || g.Bundles != 562 || g.Blobs != 32+54+562 {
		t.Errorf("%+v, want 32 packages, 54 channels, 562 bundles and no other blobs", g.Stats)
	}
	for what, within := range map[string][3]float64{
		"compact bytes":            {8.4e6, float64(g.Bytes), 9e6},
		"files by compact bytes":   {1.15, float64(g.Written) / float64(g.Bytes), 1.5},
		"share of YAML":            {.05, float64(g.YAML) / float64(g.Written), .13},
		"zipped, by compact bytes": {.14, float64(g.zipped) / float64(g.Bytes), .25},
	} {
		if within[1] < within[0] || within[1] > within[2] {
			t.Errorf("%s: %g, want %g to %g", what, within[1], within[0], within[2])
		}
	}
}

func TestScaledShape(t *testing.T) {
	for bundles, want := range map[int]int64{10: 340e3, 100: 3.4e6} {
		g := generate(t, Scaled(bundles))
		if g.Bundles != bundles || g.Bytes < want*9/10 || g.Bytes > want*11/10 {
			t.Errorf("Scaled(%d) has %d bundles and %d bytes, want about %d bytes", bundles, g.Bundles, g.Bytes, want)
		}
	}
}

func TestSameShapeSameBytes(t *testing.T) {
	sums := map[string]string{}
	for _, s := range []Shape{Scaled(100), {Packages: 5, Channels: 9, Bundles: 100, Bytes: 3_400_000, Seed: 1}} {
		first, second := generate(t, s), generate(t, s)
		if !bytes.Equal(first.hash.Sum(nil), second.hash.Sum(nil)) {
			t.Errorf("%+v: two runs differ", s)
		}
		if other, ok := sums[string(first.hash.Sum(nil))]; ok {
			t.Errorf("%s and %s are the same catalog", other, s.Key())
		}
		sums[string(first.hash.Sum(nil))] = s.Key()
	}
}

// TestGeneratedCatalogIsValid validates the generated catalog with operator-registry, like opm validate.
func TestGeneratedCatalogIsValid(t *testing.T) {
	s := Shape{Packages: 40, Channels: 80, Bundles: 400, Bytes: 6_000_000, Seed: 7}
	all := &declcfg.DeclarativeConfig{}
	schemas := map[string]int{}
	err := s.Files(t.Context(), func(f File) error {
		if strings.HasSuffix(f.Path, ".yaml") != (f.Stats.YAML > 0) {
			t.Errorf("%s counts %d bytes of YAML", f.Path, f.Stats.YAML)
		}
		cfg, err := declcfg.LoadReader(bytes.NewReader(f.Content))
		if err != nil {
			return err
		}
		all.Packages, all.Channels, all.Bundles = append(all.Packages, cfg.Packages...), append(all.Channels, cfg.Channels...), append(all.Bundles, cfg.Bundles...)
		if len(cfg.Others) > 0 {
			t.Errorf("%s has blobs of other schemas: %v", f.Path, cfg.Others)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := declcfg.ConvertToModel(*all); err != nil {
		t.Errorf("invalid catalog: %v", err)
	}
	for _, b := range all.Bundles {
		for _, p := range b.Properties {
			schemas[p.Type]++
		}
	}
	for _, kind := range []string{opmproperty.TypePackage, opmproperty.TypeGVK, opmproperty.TypeCSVMetadata, opmproperty.TypeBundleObject} {
		if schemas[kind] == 0 {
			t.Errorf("there is no property of type %s", kind)
		}
	}
}

// TestCompactBytes counts the bytes of blobs independently.
func TestCompactBytes(t *testing.T) {
	err := Scaled(60).Files(t.Context(), func(f File) error {
		if !strings.HasSuffix(f.Path, ".json") {
			return nil
		}
		sum, blobs := int64(0), 0
		for decoder := json.NewDecoder(bytes.NewReader(f.Content)); decoder.More(); blobs++ {
			var blob json.RawMessage
			if err := decoder.Decode(&blob); err != nil {
				return err
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, blob); err != nil {
				return err
			}
			sum += int64(compact.Len()) + 1
		}
		if sum != f.Stats.Bytes || blobs != f.Stats.Blobs {
			t.Errorf("%s has %d bytes in %d blobs, and says %d in %d", f.Path, sum, blobs, f.Stats.Bytes, f.Stats.Blobs)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesEnd(t *testing.T) {
	refused := errors.New("refused")
	if err := Scaled(1000).Files(t.Context(), func(File) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("got %v, want the writer's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Scaled(1000).Files(ctx, func(File) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// TestLargestPackageKeepsItsSize checks that no package grows with the catalog.
func TestLargestPackageKeepsItsSize(t *testing.T) {
	for _, bundles := range []int{1000, 10_000, 100_000} {
		s := Scaled(bundles)
		var sum float64
		var count int
		for _, p := range s.plans() {
			size := p.each * float64(p.bundles)
			if size > hugeBytes*1.01 {
				t.Errorf("a package of Scaled(%d) has %.0f bytes, want at most those of the community catalog's", bundles, size)
			}
			sum, count = sum+size, count+p.bundles
		}
		if count != bundles || sum < float64(s.Bytes)*.9 || sum > float64(s.Bytes)*1.05 {
			t.Errorf("Scaled(%d) has %d bundles of %.0f bytes, want %d bytes with all the rest", bundles, count, sum, s.Bytes)
		}
	}
}
