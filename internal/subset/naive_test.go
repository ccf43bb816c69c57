package subset

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// A randomCatalog makes catalogs, of which most are valid.
type randomCatalog struct{ *rand.Rand }

func (r randomCatalog) text() string {
	var out strings.Builder
	for p := range 1 + r.IntN(3) {
		out.WriteString(r.packageText(fmt.Sprintf("p%d", p)))
	}
	if r.IntN(3) == 0 {
		out.WriteString(loose)
	}
	return out.String()
}

func (r randomCatalog) packageText(pkg string) string {
	bundles := 1 + r.IntN(7)
	var texts []string
	used := map[int]bool{}
	channels := 1 + r.IntN(3)
	for c := range channels {
		texts = append(texts, r.channelText(pkg, fmt.Sprintf("c%d", c), bundles, used))
	}
	for b := range bundles {
		if used[b] {
			texts = append(texts, fmt.Sprintf(`{"name":"b%d","schema":"olm.bundle","image":"i","package":%q,"properties":[{"type":"olm.package","value":{"packageName":%[2]q,"version":"1.%[1]d.0"}}]}`, b, pkg))
		}
	}
	texts = append(texts, fmt.Sprintf(`{"schema":"olm.package","defaultChannel":"c%d","name":%q}`, r.IntN(channels), pkg))
	if r.IntN(2) == 0 {
		entries := []string{`{"reference":{"schema":"olm.package"},"message":"p"}`}[:r.IntN(2)]
		for _, b := range slices.Sorted(maps.Keys(used)) {
			if r.IntN(3) == 0 {
				entries = append(entries, fmt.Sprintf(`{"message":"b","reference":{"name":"b%d","schema":"olm.bundle"}}`, b))
			}
		}
		entries = append(entries, `{"message":"c","reference":{"name":"c0","schema":"olm.channel"}}`)
		slices.Sort(entries)
		texts = append(texts, fmt.Sprintf(`{"schema":"olm.deprecations","package":%q,"entries":[%s]}`, pkg, strings.Join(entries, ",")))
	}
	if r.IntN(3) == 0 {
		texts = append(texts, fmt.Sprintf(`{"schema":"custom","package":%q,"name":"x","n":12345678901234567890}`, pkg))
	}
	r.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	return strings.Join(texts, "\n") + "\n"
}

// channelText returns a channel in which the last bundle leads to all others, which it replaces or skips, most of the time.
func (r randomCatalog) channelText(pkg, name string, bundles int, used map[int]bool) string {
	var chain, others, entries []int
	for b := range bundles {
		switch r.IntN(4) {
		case 0:
		case 1:
			others, entries = append(others, b), append(entries, b)
		default:
			chain, entries = append(chain, b), append(entries, b)
		}
	}
	if len(chain) == 0 {
		chain = []int{bundles - 1}
		entries, others = append(slices.DeleteFunc(entries, func(b int) bool { return b == bundles-1 }), bundles-1), slices.DeleteFunc(others, func(b int) bool { return b == bundles-1 })
	}
	var texts []string
	for _, b := range entries {
		used[b] = true
		e := map[string]any{"name": fmt.Sprintf("b%d", b)}
		if i := slices.Index(chain, b); i > 0 {
			e["replaces"] = fmt.Sprintf("b%d", chain[i-1])
		} else if r.IntN(2) == 0 && (i < 0 || r.IntN(5) == 0) {
			e["replaces"] = fmt.Sprintf("b%d", r.IntN(bundles+2)-1)
		}
		var skips []string
		for _, o := range others {
			if o != b && (r.IntN(4) == 0 || b == chain[len(chain)-1] && r.IntN(10) > 0) {
				skips = append(skips, fmt.Sprintf("b%d", o))
			}
		}
		if skips != nil {
			e["skips"] = skips
		}
		if r.IntN(4) == 0 {
			e["skipRange"] = "<1.3.0"
		}
		text, _ := json.Marshal(e)
		texts = append(texts, string(text))
	}
	return fmt.Sprintf(`{"schema":"olm.channel","name":%q,"package":%q,"entries":[%s]}`, name, pkg, strings.Join(texts, ","))
}

func (r randomCatalog) filter() Filter {
	var f Filter
	version := func(chance int) string {
		if r.IntN(chance) > 0 {
			return ""
		}
		return fmt.Sprintf("1.%d.%d", r.IntN(7), r.IntN(2))
	}
	for range r.IntN(4) {
		rule := Include{Package: fmt.Sprintf("p%d", r.IntN(4)), MinVersion: version(3), MaxVersion: version(3), OnlyHeads: r.IntN(4) == 0}
		for range r.IntN(3) {
			rule.Channels = append(rule.Channels, fmt.Sprintf("c%d", r.IntN(4)))
		}
		if r.IntN(3) == 0 {
			rule.DefaultChannel = fmt.Sprintf("c%d", r.IntN(3))
		}
		f.Include = append(f.Include, rule)
	}
	for range r.IntN(2) {
		rule := Exclude{Package: fmt.Sprintf("p%d", r.IntN(4))}
		for range r.IntN(3) {
			rule.Channels = append(rule.Channels, fmt.Sprintf("c%d", r.IntN(4)))
		}
		f.Exclude = append(f.Exclude, rule)
	}
	return f
}

// load returns the model of blobs as operator-registry has it.
func load(t testing.TB, blobs []scan.Blob) *declcfg.DeclarativeConfig {
	t.Helper()
	cfg, err := declcfg.LoadReader(strings.NewReader(lines(blobs)))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// naive applies a filter to a model. It does not repair channels; unsure reports whether it took heads of one that needs that.
func naive(cfg *declcfg.DeclarativeConfig, f Filter) (out *declcfg.DeclarativeConfig, unsure bool) {
	version := map[[2]string]semver.Version{}
	for _, b := range cfg.Bundles {
		var value struct{ Version string }
		_ = json.Unmarshal(b.Properties[0].Value, &value)
		version[[2]string{b.Package, b.Name}] = semver.MustParse(value.Version)
	}
	excluded := func(pkg, channel string) bool {
		return slices.ContainsFunc(f.Exclude, func(r Exclude) bool {
			return r.Package == pkg && (len(r.Channels) == 0 || channel != "" && slices.Contains(r.Channels, channel))
		})
	}
	within := func(ch declcfg.Channel, r Include, e declcfg.ChannelEntry) bool {
		v := version[[2]string{ch.Package, e.Name}]
		return (r.MinVersion == "" || v.GTE(semver.MustParse(r.MinVersion))) && (r.MaxVersion == "" || v.LTE(semver.MustParse(r.MaxVersion)))
	}
	wanted := func(ch declcfg.Channel, e declcfg.ChannelEntry) bool {
		if len(f.Include) == 0 {
			return true
		}
		return slices.ContainsFunc(f.Include, func(r Include) bool {
			if r.Package != ch.Package || len(r.Channels) > 0 && !slices.Contains(r.Channels, ch.Name) {
				return false
			}
			if !r.OnlyHeads {
				return within(ch, r, e)
			}
			rest := cut(ch, func(e declcfg.ChannelEntry) bool { return within(ch, r, e) })
			heads := slices.DeleteFunc(slices.Clone(rest.Entries), func(e declcfg.ChannelEntry) bool {
				return slices.ContainsFunc(rest.Entries, func(x declcfg.ChannelEntry) bool { return x.Replaces == e.Name || slices.Contains(x.Skips, e.Name) })
			})
			unsure = unsure || len(heads) != 1
			return slices.ContainsFunc(heads, func(x declcfg.ChannelEntry) bool { return x.Name == e.Name })
		})
	}
	out = &declcfg.DeclarativeConfig{}
	had, has, left, channels := map[string]bool{}, map[string]bool{}, map[string][]string{}, map[string]bool{}
	for _, ch := range cfg.Channels {
		channels[ch.Package+"/"+ch.Name] = true
		for _, e := range ch.Entries {
			had[ch.Package+"/"+e.Name] = true
		}
		if excluded(ch.Package, ch.Name) {
			continue
		}
		if kept := cut(ch, func(e declcfg.ChannelEntry) bool { return wanted(ch, e) }); len(kept.Entries) > 0 {
			out.Channels = append(out.Channels, kept)
			left[ch.Package] = append(left[ch.Package], ch.Name)
			for _, e := range kept.Entries {
				has[ch.Package+"/"+e.Name] = true
			}
		}
	}
	for _, p := range cfg.Packages {
		for _, r := range f.Include {
			if r.Package == p.Name && r.DefaultChannel != "" {
				p.DefaultChannel = r.DefaultChannel
			}
		}
		if names := left[p.Name]; len(names) > 0 {
			if !slices.Contains(names, p.DefaultChannel) {
				p.DefaultChannel = names[0]
			}
			out.Packages = append(out.Packages, p)
		}
	}
	for _, b := range cfg.Bundles {
		if name := b.Package + "/" + b.Name; len(left[b.Package]) > 0 && (has[name] || !had[name]) {
			out.Bundles = append(out.Bundles, b)
		}
	}
	for _, d := range cfg.Deprecations {
		d.Entries = slices.DeleteFunc(slices.Clone(d.Entries), func(e declcfg.DeprecationEntry) bool {
			name := d.Package + "/" + e.Reference.Name
			return e.Reference.Schema == "olm.bundle" && had[name] && !has[name] ||
				e.Reference.Schema == "olm.channel" && channels[name] && !slices.Contains(left[d.Package], e.Reference.Name)
		})
		if len(left[d.Package]) > 0 && len(d.Entries) > 0 {
			out.Deprecations = append(out.Deprecations, d)
		}
	}
	for _, m := range cfg.Others {
		if m.Package == "" && len(f.Include) == 0 || len(left[m.Package]) > 0 {
			out.Others = append(out.Others, m)
		}
	}
	return out, unsure
}

// cut keeps some entries, and links past the others.
func cut(ch declcfg.Channel, keep func(declcfg.ChannelEntry) bool) declcfg.Channel {
	byName := map[string]declcfg.ChannelEntry{}
	for _, e := range ch.Entries {
		byName[e.Name] = e
	}
	kept := declcfg.Channel{Schema: ch.Schema, Name: ch.Name, Package: ch.Package, Properties: ch.Properties}
	for _, e := range ch.Entries {
		if !keep(e) {
			continue
		}
		to := e.Replaces
		for range ch.Entries {
			if next, ok := byName[to]; ok && !keep(next) {
				to = next.Replaces
			}
		}
		if next, ok := byName[to]; ok && keep(next) {
			e.Replaces = to
		}
		kept.Entries = append(kept.Entries, e)
	}
	for i, e := range kept.Entries { // no new circles
		at := e.Name
		for n := 0; n == 0 || n <= len(kept.Entries) && at != e.Name; n++ {
			j := slices.IndexFunc(kept.Entries, func(x declcfg.ChannelEntry) bool { return x.Name == at })
			if j < 0 {
				break
			}
			at = kept.Entries[j].Replaces
		}
		if at == e.Name {
			kept.Entries[i].Replaces = byName[e.Name].Replaces
		}
	}
	return kept
}

// TestSelectIsTheNaiveFilter compares with a filter of operator-registry's model. Where that would make a valid channel invalid, the
// result has fewer entries, of those that were skipped.
func TestSelectIsTheNaiveFilter(t *testing.T) {
	same, repaired, refused, valid := 0, 0, 0, 0
	for seed := range uint64(1_000) {
		r := randomCatalog{rand.New(rand.NewPCG(seed, 7))}
		all := parse(t, r.text())
		f := r.filter()
		if f.Validate() != nil || f.IsZero() {
			continue
		}
		got, report, err := f.Apply(all)
		if err != nil {
			refused++
			continue
		}
		checkResult(t, all, got, report)
		for _, err := range validate(got) {
			if err == nil {
				valid++
			}
		}
		model := load(t, got)
		want, unsure := naive(load(t, all), f)
		switch diff := cmp.Diff(want, model); {
		case diff == "":
			same++
		case unsure:
		case !isInvalid(t, want):
			t.Fatalf("seed %d, filter %+v\n%s\n%s", seed, f, lines(all), diff)
		default:
			repaired++
			checkRepair(t, load(t, all), want, model)
		}
		if t.Failed() {
			t.Fatalf("seed %d, filter %+v\n%s", seed, f, lines(all))
		}
	}
	t.Logf("%d same, %d repaired, %d refused, %d valid packages", same, repaired, refused, valid)
	if same < 200 || repaired < 5 || refused < 200 || valid < 300 {
		t.Error("the catalogs or filters are too much alike")
	}
}

// isInvalid reports whether a package is invalid.
func isInvalid(t testing.TB, cfg *declcfg.DeclarativeConfig) bool {
	var out strings.Builder
	if err := declcfg.WriteJSON(*cfg, &out); err != nil {
		t.Fatal(err)
	}
	var blobs []scan.Blob
	err := scan.Objects([]byte(out.String()), 1<<20, func(compact []byte) error {
		b, err := scan.ParseBlob([]byte(string(compact)))
		blobs = append(blobs, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range validate(blobs) {
		if err != nil {
			return true
		}
	}
	return false
}

// checkRepair fails the test if entries are missing that nothing skipped.
func checkRepair(t testing.TB, all, want, got *declcfg.DeclarativeConfig) {
	t.Helper()
	entries := func(cfg *declcfg.DeclarativeConfig) map[string]bool {
		out := map[string]bool{}
		for _, ch := range cfg.Channels {
			for _, e := range ch.Entries {
				out[ch.Package+"/"+ch.Name+"/"+e.Name] = true
			}
		}
		return out
	}
	skipped := map[string]bool{}
	for _, ch := range all.Channels {
		for _, e := range ch.Entries {
			for _, name := range e.Skips {
				skipped[ch.Package+"/"+ch.Name+"/"+name] = true
			}
		}
	}
	before, after := entries(want), entries(got)
	for name := range before {
		if !after[name] && !skipped[name] {
			t.Errorf("%s is missing", name)
		}
	}
	for name := range after {
		if !before[name] {
			t.Errorf("%s is not selected", name)
		}
	}
}

// resultsHash returns the version of the engine with a hash of the results of many filters.
func resultsHash(t testing.TB) string {
	sum := sha256.New()
	for seed := range uint64(500) {
		r := randomCatalog{rand.New(rand.NewPCG(seed, 11))}
		all := parse(t, r.text())
		got, _, err := r.filter().Apply(all)
		fmt.Fprint(sum, lines(got), err != nil)
	}
	return fmt.Sprintf("%d %x", engineVersion, sum.Sum(nil)[:8])
}
