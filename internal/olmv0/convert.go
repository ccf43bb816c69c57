package olmv0

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
)

// frame is a package without its bundles.
type frame struct {
	pkg          declcfg.Package
	channels     []declcfg.Channel // sorted by name
	deprecations map[declcfg.PackageScopedReference]*model.Deprecation
}

// newFrame makes a frame of the blobs of a valid package (compact JSON) that are neither bundles nor custom.
func newFrame(blobs []*declcfg.Meta) (*frame, error) {
	cfg, err := declcfg.LoadSlice(blobs)
	if err != nil {
		return nil, err
	}
	if len(cfg.Packages) != 1 {
		return nil, fmt.Errorf("%d olm.package blobs instead of one", len(cfg.Packages))
	}
	f := &frame{pkg: cfg.Packages[0], channels: cfg.Channels, deprecations: map[declcfg.PackageScopedReference]*model.Deprecation{}}
	slices.SortFunc(f.channels, func(a, b declcfg.Channel) int { return cmp.Compare(a.Name, b.Name) })
	for _, d := range cfg.Deprecations {
		for _, e := range d.Entries {
			f.deprecations[e.Reference] = &model.Deprecation{Message: e.Message}
		}
	}
	return f, nil
}

// deprecation returns that of the package or of a channel, nil if there is none.
func (f *frame) deprecation(schema, name string) *api.Deprecation {
	d, ok := f.deprecations[declcfg.PackageScopedReference{Schema: schema, Name: name}]
	if !ok {
		return nil
	}
	return &api.Deprecation{Message: d.Message}
}

// channel returns the channel of a name, nil if there is none.
func (f *frame) channel(name string) *declcfg.Channel {
	i := slices.IndexFunc(f.channels, func(ch declcfg.Channel) bool { return ch.Name == name })
	if i < 0 {
		return nil
	}
	return &f.channels[i]
}

// membership is a bundle in a channel.
type membership struct {
	channel *declcfg.Channel
	entry   *declcfg.ChannelEntry
}

// members returns the memberships of each bundle.
func (f *frame) members() map[string][]membership {
	out := map[string][]membership{}
	for i := range f.channels {
		ch := &f.channels[i]
		for j := range ch.Entries {
			out[ch.Entries[j].Name] = append(out[ch.Entries[j].Name], membership{ch, &ch.Entries[j]})
		}
	}
	return out
}

// entryOf returns the entry of a bundle in a channel, nil if there is none.
func entryOf(ch *declcfg.Channel, bundle string) *declcfg.ChannelEntry {
	i := slices.IndexFunc(ch.Entries, func(e declcfg.ChannelEntry) bool { return e.Name == bundle })
	if i < 0 {
		return nil
	}
	return &ch.Entries[i]
}

// convert returns a bundle as a member of a channel. operator-registry converts it, in a package that has nothing else: the
// rest has no influence on it.
func (f *frame) convert(b declcfg.Bundle, ch *declcfg.Channel, entry *declcfg.ChannelEntry) (*api.Bundle, error) {
	pkg, only := f.pkg, *ch
	pkg.DefaultChannel, only.Entries = ch.Name, []declcfg.ChannelEntry{*entry}
	b.Properties = slices.Clone(b.Properties) // the model normalizes them in place
	converted, err := declcfg.ConvertToModel(declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{pkg}, Channels: []declcfg.Channel{only}, Bundles: []declcfg.Bundle{b},
	})
	if err != nil {
		return nil, err
	}
	bundle := converted[pkg.Name].Channels[ch.Name].Bundles[b.Name]
	bundle.Deprecation = f.deprecations[declcfg.PackageScopedReference{Schema: declcfg.SchemaBundle, Name: b.Name}]
	return api.ConvertModelBundleToAPIBundle(*bundle)
}

// loadBundle reads a bundle with its manifests, as operator-registry does: keys are sorted, and characters not escaped.
func loadBundle(blob []byte) (declcfg.Bundle, error) {
	var meta declcfg.Meta
	if err := meta.UnmarshalJSON(blob); err != nil {
		return declcfg.Bundle{}, err
	}
	cfg, err := declcfg.LoadSlice([]*declcfg.Meta{&meta})
	if err != nil {
		return declcfg.Bundle{}, err
	}
	return cfg.Bundles[0], nil
}

// loadListed is loadBundle for ListBundles, which returns no manifests of a bundle with an image. Not decoding them saves
// most of the time.
func loadListed(blob []byte) (b declcfg.Bundle, err error) {
	if err := json.Unmarshal(blob, &b); err != nil {
		return b, err
	}
	if b.Image == "" {
		return loadBundle(blob)
	}
	metadata := 0
	b.Properties = slices.DeleteFunc(b.Properties, func(p property.Property) bool {
		if p.Type == property.TypeCSVMetadata {
			metadata++
		}
		return p.Type == property.TypeBundleObject || p.Type == property.TypeCSVMetadata
	})
	if metadata > 1 { // the text of operator-registry
		return b, fmt.Errorf("parse properties: expected at most 1 property of type %q, found %d", property.TypeCSVMetadata, metadata)
	}
	for i := range b.Properties {
		if b.Properties[i].Value, err = reencode(b.Properties[i].Value); err != nil {
			return b, err
		}
	}
	return b, nil
}

// reencode returns JSON as declcfg.Meta has it.
func reencode(text json.RawMessage) (json.RawMessage, error) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
