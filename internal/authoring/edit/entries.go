package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/splice"
)

// entriesOf returns the entries of a channel as a value. Those without a name have "".
func entriesOf(entries *splice.Value) (all []channel.Entry) {
	if entries == nil {
		return nil
	}
	for _, it := range entries.Items {
		all = append(all, entryOf(it.Value))
	}
	return all
}

func entryOf(v *splice.Value) channel.Entry {
	e := channel.Entry{Name: v.Get("name").Text(), Replaces: v.Get("replaces").Text(), SkipRange: v.Get("skipRange").Text()}
	if skips := v.Get("skips"); skips != nil {
		for _, it := range skips.Items {
			e.Skips = append(e.Skips, it.Value.Text())
		}
	}
	return e
}

// A step changes entries to those of the same name in want.
type step func(f *file, entries *splice.Value, want map[string]channel.Entry) ([]splice.Patch, error)

// setEntries changes the entries of a channel to others: it removes those that are not among them, changes those that differ, and
// inserts new ones beside the head. The rest of the text stays. There must be one that stays.
func (c *Catalog) setEntries(pkg, name string, want []channel.Entry) error {
	wanted := map[string]channel.Entry{}
	for _, e := range want {
		wanted[e.Name] = e
	}
	steps := []step{
		removeEntries, removeSkips,
		changeText("replaces", func(e channel.Entry) string { return e.Replaces }),
		changeText("skipRange", func(e channel.Entry) string { return e.SkipRange }),
	}
	for _, step := range steps {
		_, err := c.changeEntries(pkg, name, func(f *file, entries *splice.Value) ([]splice.Patch, error) { return step(f, entries, wanted) })
		if err != nil {
			return err
		}
	}
	for changed := true; changed; {
		var err error
		changed, err = c.changeEntries(pkg, name, func(f *file, entries *splice.Value) ([]splice.Patch, error) { return addSkips(f, entries, wanted) })
		if err != nil {
			return err
		}
	}
	for _, e := range want {
		_, err := c.changeEntries(pkg, name, func(f *file, entries *splice.Value) ([]splice.Patch, error) { return insertEntry(f, entries, e) })
		if err != nil {
			return err
		}
	}
	return nil
}

// changeEntries applies patches to the text of a channel, and reports whether there are any.
func (c *Catalog) changeEntries(pkg, name string, change func(f *file, entries *splice.Value) ([]splice.Patch, error)) (bool, error) {
	d := c.find(fbc.SchemaChannel, pkg, name)
	tree, err := d.tree()
	if err != nil {
		return false, err
	}
	entries := tree.Get("entries")
	if entries == nil || entries.Kind != splice.List || len(entries.Items) == 0 {
		return false, fmt.Errorf("%s: channel %q of package %q has no entries", d.file.name, name, pkg)
	}
	err = checkNames(entriesOf(entries))
	var patches []splice.Patch
	if err == nil {
		patches, err = change(d.file, entries)
	}
	if err != nil {
		return false, fmt.Errorf("%s: channel %q of package %q: %w", d.file.name, name, pkg, err)
	}
	if len(patches) == 0 {
		return false, nil
	}
	return true, d.file.set(splice.Apply(d.file.text, patches...))
}

// checkNames returns an error if an entry has no name, or that of another.
func checkNames(entries []channel.Entry) error {
	seen := map[string]bool{}
	for _, e := range entries {
		switch {
		case e.Name == "":
			return errors.New("an entry has no name")
		case seen[e.Name]:
			return fmt.Errorf("entry %q occurs twice", e.Name)
		}
		seen[e.Name] = true
	}
	return nil
}

func removeEntries(f *file, entries *splice.Value, want map[string]channel.Entry) ([]splice.Patch, error) {
	goes := func(it splice.Item) bool {
		_, ok := want[it.Value.Get("name").Text()]
		return !ok
	}
	if !slices.ContainsFunc(entries.Items, goes) {
		return nil, nil
	}
	return splice.RemoveItems(f.text, entries, goes)
}

// changeText returns a step that changes a text of entries that are there.
func changeText(key string, of func(channel.Entry) string) step {
	return func(f *file, entries *splice.Value, want map[string]channel.Entry) (patches []splice.Patch, err error) {
		for _, it := range entries.Items {
			e := entryOf(it.Value)
			to := of(want[e.Name])
			if of(e) == to {
				continue
			}
			var s splice.Patch
			switch i := it.Value.Index(key); {
			case i < 0:
				s, err = splice.InsertMember(f.text, it.Value, it.Value.Index("name"), key, to)
			case to == "":
				s, err = splice.RemoveMember(f.text, it.Value, i)
			default:
				s, err = splice.ReplaceScalar(f.text, it.Value.Members[i].Value, to)
			}
			if err != nil {
				return nil, err
			}
			patches = append(patches, s)
		}
		return patches, nil
	}
}

// removeSkips removes the skips that an entry is to lose.
func removeSkips(f *file, entries *splice.Value, want map[string]channel.Entry) (patches []splice.Patch, err error) {
	for _, it := range entries.Items {
		e := entryOf(it.Value)
		to := want[e.Name].Skips
		goes := func(name string) bool { return !slices.Contains(to, name) }
		if !slices.ContainsFunc(e.Skips, goes) {
			continue
		}
		i := it.Value.Index("skips")
		var more []splice.Patch
		if slices.ContainsFunc(e.Skips, func(name string) bool { return !goes(name) }) {
			more, err = splice.RemoveItems(f.text, it.Value.Members[i].Value, func(it splice.Item) bool { return goes(it.Value.Text()) })
		} else {
			var s splice.Patch
			s, err = splice.RemoveMember(f.text, it.Value, i)
			more = []splice.Patch{s}
		}
		if err != nil {
			return nil, err
		}
		patches = append(patches, more...)
	}
	return patches, nil
}

// addSkips adds one of the skips that each entry lacks.
func addSkips(f *file, entries *splice.Value, want map[string]channel.Entry) (patches []splice.Patch, err error) {
	for _, it := range entries.Items {
		e := entryOf(it.Value)
		to := want[e.Name].Skips
		missing := slices.IndexFunc(to, func(name string) bool { return !slices.Contains(e.Skips, name) })
		if missing < 0 {
			continue
		}
		var s splice.Patch
		if len(e.Skips) == 0 {
			s, err = splice.InsertMember(f.text, it.Value, it.Value.Index("name"), "skips", to[missing:missing+1])
		} else {
			var raw []byte
			if raw, err = json.Marshal(to[missing]); err == nil {
				s, err = splice.InsertItem(f.text, it.Value.Get("skips"), len(e.Skips)-1, raw)
			}
		}
		if err != nil {
			return nil, err
		}
		patches = append(patches, s)
	}
	return patches, nil
}

// insertEntry inserts an entry, if it is new: before the first if that is the head, and else at the end.
func insertEntry(f *file, entries *splice.Value, e channel.Entry) ([]splice.Patch, error) {
	have := entriesOf(entries)
	if slices.ContainsFunc(have, func(other channel.Entry) bool { return other.Name == e.Name }) {
		return nil, nil
	}
	raw, err := encodeEntry(e)
	if err != nil {
		return nil, err
	}
	last := len(have) - 1
	if last > 0 && e.Replaces == have[0].Name && !slices.ContainsFunc(have, func(other channel.Entry) bool { return other.Replaces == e.Name }) {
		s, err := splice.InsertFirst(f.text, entries, raw)
		return []splice.Patch{s}, err
	}
	s, err := splice.InsertItem(f.text, entries, last, raw)
	return []splice.Patch{s}, err
}

// encodeEntry returns an entry as authors write it.
func encodeEntry(e channel.Entry) ([]byte, error) {
	return splice.Encode(struct {
		Name      string   `json:"name"`
		Replaces  string   `json:"replaces,omitempty"`
		Skips     []string `json:"skips,omitempty"`
		SkipRange string   `json:"skipRange,omitempty"`
	}{e.Name, e.Replaces, e.Skips, e.SkipRange})
}
