// Package catalogs generates file-based catalogs of a given shape: the same files for the same Shape, on every
// machine.
// The content is artificial, but its sizes, distributions, repetitions and formatting match the community operator
// catalog of OpenShift, so that reading, compressing and serving it costs as much. opm accepts it.
package catalogs

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// version changes when the content generated for a Shape changes.
const version = 3

// Shape is the size of a catalog. It determines every byte.
type Shape struct {
	Packages, Channels, Bundles int
	Bytes                       int64  // of all blobs as compact JSON, within some percent
	Seed                        uint64 // another seed gives another catalog of the same shape
}

// Community is the shape of the community operator catalog of OpenShift 4.20.
func Community() Shape {
	return Shape{Packages: 319, Channels: 537, Bundles: 5625, Bytes: 114_458_959}
}

// Scaled returns the shape of a catalog with this many bundles in packages like those of Community. Its bundles are
// larger on average: 100 bundles take 3.4 MB, 1,000 take 33.5 MB, 10,000 take 300 MB and 100,000 take 3 GB.
func Scaled(bundles int) Shape {
	each := int64(33_500)
	switch {
	case bundles <= 100:
		each = 34_000
	case bundles >= 10_000:
		each = 30_000
	}
	c := Community()
	return Shape{
		Packages: max(1, bundles*c.Packages/c.Bundles),
		Channels: max(1, bundles*c.Channels/c.Bundles),
		Bundles:  bundles,
		Bytes:    int64(bundles) * each,
	}
}

// Key names the catalog: catalogs with the same key have the same bytes.
func (s Shape) Key() string {
	return fmt.Sprintf("v%d-%dp-%dc-%db-%d-s%d", version, s.Packages, s.Channels, s.Bundles, s.Bytes, s.Seed)
}

// plan describes a package before its generation.
type plan struct {
	name     string
	number   int     // from 1
	bundles  int     // at least 1
	channels int     // at least 1
	each     float64 // bytes of a bundle as compact JSON, on average
	icon     int     // bytes of the icon in base64
	huge     bool    // like the largest package of the community catalog
	objects  bool    // olm.bundle.object in place of olm.csv.metadata
	yaml     bool
}

// quantile is a value below which a share of a distribution is.
type quantile struct{ share, value float64 }

// The distributions of the community catalog, as measured.
var (
	bundlesOfPackage = [...]quantile{{0, 1}, {.1, 1}, {.25, 2}, {.5, 8}, {.75, 26}, {.9, 49}, {.95, 70}, {.99, 104}, {1, 152}}
	bytesOfBundle    = [...]quantile{
		{0, 2800}, {.05, 3257}, {.1, 3505}, {.25, 4036}, {.5, 5761}, {.75, 12187}, {.9, 28237}, {.95, 48978}, {.99, 202959}, {1, 300000},
	}
	bytesOfIcon = [...]quantile{
		{0, 0}, {.04, 0}, {.05, 700}, {.1, 1220}, {.25, 4264}, {.5, 5184}, {.75, 17732}, {.9, 48744}, {.95, 79540}, {.99, 218064}, {1, 394212},
	}
)

const (
	yamlShare    = .12       // of the bytes
	objectsEvery = 29        // one package of these has olm.bundle.object, and all
	objectsFrom  = 60_000    // whose bundles have as many bytes
	mostBytes    = 5_000_000 // of a package, but for the huge ones
	// The largest package of the community catalog. Its bundles grow with each version, up to 2.4 MB.
	hugeBytes, hugeBundles, hugeEvery = 27_226_745, 22, 319
)

// newRand returns the random numbers for a part of a catalog.
func newRand(seed, part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, part)) //nolint:gosec // G404: the numbers must be reproducible
}

// at returns the value of a share, interpolated logarithmically between quantiles.
func at(distribution []quantile, share float64) float64 {
	for i := 1; i < len(distribution); i++ {
		low, high := distribution[i-1], distribution[i]
		if share > high.share {
			continue
		}
		part := (share - low.share) / (high.share - low.share)
		return math.Exp(math.Log(low.value+1)*(1-part)+math.Log(high.value+1)*part) - 1
	}
	return distribution[len(distribution)-1].value
}

// spread returns n evenly drawn values of a distribution, in random order.
func spread(r *rand.Rand, n int, distribution []quantile) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = at(distribution, (float64(i)+.5)/float64(n))
	}
	r.Shuffle(n, func(i, j int) { values[i], values[j] = values[j], values[i] })
	return values
}

// plans returns the packages, sorted by name.
func (s Shape) plans() []plan {
	r := newRand(s.Seed, 0)
	plans := make([]plan, s.Packages)
	counts := spread(r, s.Packages, bundlesOfPackage[:])
	sizes := spread(r, s.Packages, bytesOfBundle[:])
	icons := spread(r, s.Packages, bytesOfIcon[:])
	for i := range plans {
		plans[i] = plan{
			name: fmt.Sprintf("%s-%s-operator-%d", word(r), word(r), i+1), number: i + 1,
			bundles: max(1, int(counts[i])), channels: 1, each: sizes[i], icon: int(icons[i]),
			objects: i%objectsEvery == 7 || sizes[i] > objectsFrom,
		}
		if i%hugeEvery == hugeEvery/2 {
			p := &plans[i]
			p.huge, p.bundles, p.each, p.objects = true, hugeBundles, hugeBytes/hugeBundles, true
		}
	}
	fitBundles(plans, s.Bundles)
	for extra := s.Channels - s.Packages; extra > 0; extra-- {
		// Packages with many bundles have more channels: this is the larger of two draws.
		a, b := &plans[r.IntN(len(plans))], &plans[r.IntN(len(plans))]
		if a.bundles < b.bundles {
			a = b
		}
		a.channels++
	}
	fitBytes(plans, s.Bytes)
	chooseYAML(r, plans, s.Bytes)
	// in the order in which image build tools walk directories
	slices.SortFunc(plans, func(a, b plan) int { return cmp.Compare(a.name, b.name) })
	return plans
}

// chooseYAML selects random packages until they have the wanted share of all bytes, and none that is too large for
// that.
func chooseYAML(r *rand.Rand, plans []plan, bytes int64) {
	left := yamlShare * float64(bytes)
	for _, i := range r.Perm(len(plans)) {
		p := &plans[i]
		size := float64(p.icon) + p.each*float64(p.bundles)
		if p.yaml = !p.huge && size <= left; p.yaml {
			left -= size
		}
	}
}

// fitBundles adds or removes bundles, one per package and round, until their number is right.
func fitBundles(plans []plan, want int) {
	have := 0
	for _, p := range plans {
		have += p.bundles
	}
	for have != want {
		before := have
		for i := range plans {
			p := &plans[i]
			switch {
			case p.huge || have == want:
			case have < want:
				p.bundles, have = p.bundles+1, have+1
			case p.bundles > 4:
				p.bundles, have = p.bundles-1, have-1
			}
		}
		if have == before { // only packages of few bundles are left
			for i := range plans {
				if have > want && plans[i].bundles > 1 {
					plans[i].bundles, have = plans[i].bundles-1, have-1
				}
			}
		}
		if have == before {
			return
		}
	}
}

// fitBytes scales bundles above their minimum until the total size is right.
func fitBytes(plans []plan, want int64) {
	const rounds = 20 // packages reach their maximum on the way
	for range rounds {
		var fixed, scalable float64
		for i := range plans {
			p := &plans[i]
			fixed += float64(p.icon) + 1800 + 130*float64(p.bundles)
			if p.huge {
				fixed += p.each * float64(p.bundles)
				continue
			}
			p.each = min(p.each, max(leastBundle, mostBytes/float64(p.bundles)))
			fixed += leastBundle * float64(p.bundles)
			scalable += (p.each - leastBundle) * float64(p.bundles)
		}
		scale := max(0, (float64(want)-fixed)/max(1, scalable))
		for i := range plans {
			if p := &plans[i]; !p.huge {
				p.each = leastBundle + max(0, p.each-leastBundle)*scale
			}
		}
	}
}
