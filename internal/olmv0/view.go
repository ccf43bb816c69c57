package olmv0

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// view answers about one catalog. Errors that are not of the package status reach clients with the code Unknown, as those of
// opm do, and have its texts (operator-registry v1.72.0, pkg/cache/pkgs.go).
type view struct {
	catalog string
	snap    *store.Snapshot
	file    *file
}

// frame reads a package without its bundles.
func (v *view) frame(ctx context.Context, pkg string) (*frame, error) {
	if !v.snap.IsValid(pkg) || v.file.report.omits(pkg) {
		return nil, notFoundError(pkg)
	}
	return readFrame(ctx, v.snap, pkg)
}

// notFoundError is the error about a package that does not exist, or is left out.
type notFoundError string

func (e notFoundError) Error() string { return fmt.Sprintf("package %q not found", string(e)) }

func readFrame(ctx context.Context, snap *store.Snapshot, pkg string) (*frame, error) {
	blobs := snap.Package(pkg).Keep(func(e store.Entry) bool {
		return e.Schema != fbc.SchemaBundle && !fbc.IsCustom(e.Schema)
	})
	var metas []*declcfg.Meta
	for blob, err := range blobs.Verified(ctx) {
		if err != nil {
			return nil, err
		}
		e := blobs.Entry(len(metas))
		metas = append(metas, &declcfg.Meta{Schema: e.Schema, Package: e.Package, Name: e.Name, Blob: slices.Clone(blob)})
	}
	return newFrame(metas)
}

func (v *view) packages() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range v.snap.Packages() {
			if !v.file.report.omits(p.Name) && !yield(p.Name) {
				return
			}
		}
	}
}

// pkg answers GetPackage.
func (v *view) pkg(ctx context.Context, name string) (*api.Package, error) {
	f, err := v.frame(ctx, name)
	if err != nil {
		return nil, err
	}
	heads, err := v.heads(name)
	if err != nil {
		return nil, err
	}
	out := &api.Package{Name: name, DefaultChannelName: f.pkg.DefaultChannel, Deprecation: f.deprecation(declcfg.SchemaPackage, "")}
	for _, ch := range f.channels {
		out.Channels = append(out.Channels, &api.Channel{
			Name: ch.Name, CsvName: heads[ch.Name], Deprecation: f.deprecation(declcfg.SchemaChannel, ch.Name),
		})
	}
	return out, nil
}

// heads returns the head of each channel of a valid package.
func (v *view) heads(pkg string) (map[string]string, error) {
	p, err := v.snap.LoadPackage(pkg)
	if err != nil {
		return nil, err
	}
	heads := map[string]string{}
	for _, ch := range p.Channels {
		heads[ch.Name] = ch.Head
	}
	return heads, nil
}

// head answers GetBundleForChannel.
func (v *view) head(ctx context.Context, pkg, channel string) (*api.Bundle, error) {
	f, ch, err := v.channel(ctx, pkg, channel)
	if err != nil {
		return nil, err
	}
	heads, err := v.heads(pkg)
	if err != nil {
		return nil, err
	}
	return v.member(ctx, f, ch, heads[channel])
}

// channel returns a channel of a package.
func (v *view) channel(ctx context.Context, pkg, channel string) (*frame, *declcfg.Channel, error) {
	f, err := v.frame(ctx, pkg)
	if err != nil {
		return nil, nil, err
	}
	ch := f.channel(channel)
	if ch == nil {
		return nil, nil, fmt.Errorf("package %q, channel %q not found", pkg, channel)
	}
	return f, ch, nil
}

// bundle answers GetBundle.
func (v *view) bundle(ctx context.Context, pkg, channel, name string) (*api.Bundle, error) {
	f, ch, err := v.channel(ctx, pkg, channel)
	if err != nil {
		return nil, err
	}
	if entryOf(ch, name) == nil {
		return nil, fmt.Errorf("package %q, channel %q, bundle %q not found", pkg, channel, name)
	}
	return v.member(ctx, f, ch, name)
}

// member returns a bundle of a channel, without the edges to others.
func (v *view) member(ctx context.Context, f *frame, ch *declcfg.Channel, name string) (*api.Bundle, error) {
	for blob, err := range v.snap.Select(store.Query{Schema: fbc.SchemaBundle, Package: f.pkg.Name, Name: name}).Verified(ctx) {
		if err != nil {
			return nil, err
		}
		b, err := loadBundle(blob)
		if err != nil {
			return nil, err
		}
		out, err := f.convert(b, ch, entryOf(ch, name))
		if err != nil {
			return nil, err
		}
		out.Replaces, out.Skips = "", nil
		return out, nil
	}
	return nil, fmt.Errorf("package %q, channel %q, bundle %q not found", f.pkg.Name, ch.Name, name)
}

// replacing answers GetBundleThatReplaces, with the first by name of several.
func (v *view) replacing(ctx context.Context, name, pkg, channel string) (*api.Bundle, error) {
	if !v.snap.IsValid(pkg) || v.file.report.omits(pkg) {
		return nil, fmt.Errorf("package %s not found", pkg) // without quotes, as opm has it
	}
	f, ch, err := v.channel(ctx, pkg, channel)
	if err != nil {
		return nil, err
	}
	found := ""
	for _, e := range ch.Entries {
		if (e.Replaces == name || slices.Contains(e.Skips, name)) && (found == "" || e.Name < found) {
			found = e.Name
		}
	}
	if found == "" {
		return nil, fmt.Errorf("no entry found for package %q, channel %q", pkg, channel)
	}
	return v.member(ctx, f, ch, found)
}

// entriesThatReplace answers GetChannelEntriesThatReplace.
func (v *view) entriesThatReplace(ctx context.Context, name string) (out []*api.ChannelEntry, err error) {
	for b, err := range v.listed(ctx, name) {
		if err != nil {
			return nil, err
		}
		if b.GetReplaces() == name {
			out = append(out, entryTo(b, b.GetReplaces()))
		}
		for _, skip := range b.GetSkips() {
			if skip == name && skip != b.GetReplaces() {
				out = append(out, entryTo(b, b.GetReplaces()))
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no channel entries found that replace %s", name)
	}
	return out, nil
}

// listed returns the messages of ListBundles that may have a text in a field.
func (v *view) listed(ctx context.Context, text string) iter.Seq2[*api.Bundle, error] {
	return func(yield func(*api.Bundle, error) bool) {
		for message, err := range v.file.messages() {
			err = cmp.Or(err, ctx.Err())
			if err == nil && !bytes.Contains(message, []byte(text)) {
				continue
			}
			b := &api.Bundle{}
			err = cmp.Or(err, proto.Unmarshal(message, b))
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

func entryTo(b *api.Bundle, replaces string) *api.ChannelEntry {
	return &api.ChannelEntry{
		PackageName: b.GetPackageName(), ChannelName: b.GetChannelName(), BundleName: b.GetCsvName(), Replaces: replaces,
	}
}

// entriesThatProvide answers GetChannelEntriesThatProvide: an entry for what each bundle replaces, and each that it skips.
func (v *view) entriesThatProvide(ctx context.Context, gvk fbc.GVK) ([]*api.ChannelEntry, error) {
	return v.entriesOf(ctx, gvk, func(b *api.Bundle) ([]string, bool, error) { return b.GetSkips(), true, nil })
}

// latestEntriesThatProvide answers GetLatestChannelEntriesThatProvide: of the heads, and of skips that are in the channel.
func (v *view) latestEntriesThatProvide(ctx context.Context, gvk fbc.GVK) ([]*api.ChannelEntry, error) {
	return v.entriesOf(ctx, gvk, func(b *api.Bundle) (skips []string, isHead bool, err error) {
		heads, err := v.heads(b.GetPackageName())
		if err != nil || heads[b.GetChannelName()] != b.GetCsvName() {
			return nil, false, err
		}
		_, ch, err := v.channel(ctx, b.GetPackageName(), b.GetChannelName())
		if err != nil {
			return nil, false, err
		}
		for _, skip := range b.GetSkips() {
			if entryOf(ch, skip) != nil {
				skips = append(skips, skip)
			}
		}
		return skips, true, nil
	})
}

// entriesOf returns, for each wanted bundle that provides an API, an entry for what it replaces and for each of the skips
// that choose returns. An API without a version or a kind has no provider.
func (v *view) entriesOf(
	ctx context.Context, gvk fbc.GVK, choose func(*api.Bundle) (skips []string, wanted bool, err error),
) (out []*api.ChannelEntry, err error) {
	for b, err := range v.listed(ctx, gvk.Kind) {
		if err != nil {
			return nil, err
		}
		if !provides(b, gvk) {
			continue
		}
		skips, wanted, err := choose(b)
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		out = append(out, entryTo(b, b.GetReplaces()))
		for _, skip := range skips {
			if skip != b.GetReplaces() {
				out = append(out, entryTo(b, skip))
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no channel entries found that provide group:%q version:%q kind:%q", gvk.Group, gvk.Version, gvk.Kind)
	}
	return out, nil
}

func provides(b *api.Bundle, gvk fbc.GVK) bool {
	return gvk.Version != "" && gvk.Kind != "" && slices.ContainsFunc(b.GetProvidedApis(), func(p *api.GroupVersionKind) bool {
		return fbc.GVK{Group: p.GetGroup(), Version: p.GetVersion(), Kind: p.GetKind()} == gvk
	})
}

// defaultProvider answers GetDefaultBundleThatProvides: the first package by name whose default channel provides an API.
func (v *view) defaultProvider(ctx context.Context, gvk fbc.GVK) (*api.Bundle, error) {
	latest, err := v.latestEntriesThatProvide(ctx, gvk)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(latest, func(a, b *api.ChannelEntry) int { return cmp.Compare(a.GetPackageName(), b.GetPackageName()) })
	for _, e := range latest {
		p, err := v.snap.LoadPackage(e.GetPackageName())
		if err != nil {
			return nil, err
		}
		if p.DefaultChannel == e.GetChannelName() {
			return v.bundle(ctx, e.GetPackageName(), e.GetChannelName(), e.GetBundleName())
		}
	}
	return nil, fmt.Errorf("no entry found that provides group:%q version:%q kind:%q", gvk.Group, gvk.Version, gvk.Kind)
}

// validComponent is what opm accepts as a schema or a package (pkg/cache/meta_key.go).
var validComponent = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// custom answers ExperimentalListPackageCustomSchemas: the custom blobs of a schema and a package, or of no package.
func (v *view) custom(ctx context.Context, schema, pkg string, send func(*structpb.Struct) error) error {
	for _, c := range []struct{ name, value string }{{"schema", schema}, {"packageName", pkg}} {
		if !validComponent.MatchString(c.value) && (c.value != "" || c.name == "schema") {
			return status.Errorf(codes.InvalidArgument, "invalid custom schema query: invalid %s %q: must match %s", c.name, c.value, validComponent)
		}
	}
	blobs := v.snap.Select(store.Query{Schema: schema, Custom: true}).Keep(func(e store.Entry) bool { return e.Package == pkg })
	for blob, err := range blobs.Verified(ctx) {
		if err != nil {
			return err
		}
		out := &structpb.Struct{}
		if err := out.UnmarshalJSON(blob); err != nil {
			return fmt.Errorf("converting a blob of schema %s: %w", schema, err)
		}
		if err := send(out); err != nil {
			return err
		}
	}
	return nil
}
