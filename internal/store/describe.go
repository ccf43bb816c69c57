package store

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// describe finds out which packages of a snapshot are sound and what they are, unless that is known; it is durable when it
// returns. What previous says of a sound package with the same blobs is taken from there; it may be nil. An error may be a
// *DamagedError.
func (s *Store) describe(ctx context.Context, snap, previous *Snapshot) error {
	snap.describing.Lock()
	defer snap.describing.Unlock()
	if snap.Validated() {
		return nil
	}
	return s.writePackages(ctx, snap, previous)
}

// Revalidate replaces a description that is damaged. It needs nothing but the volume. An error may be a *DamagedError, as of describe.
func (s *Store) Revalidate(ctx context.Context, snap *Snapshot) error {
	snap.describing.Lock()
	defer snap.describing.Unlock()
	return s.writePackages(ctx, snap, nil)
}

// writePackages makes the file packages of a snapshot, for a caller that holds its describing. Damage of the blobs that it meets it
// notes.
//
//	write(stage) fsync(stage) close rename(stage, snapshot) fsync(snapshot)
func (s *Store) writePackages(ctx context.Context, snap, previous *Snapshot) (err error) {
	defer func() {
		if err != nil {
			snap.noteDamage(ctx, err)
			err = fmt.Errorf("describing the packages: %w", err)
		}
	}()
	staged := s.stageName() + "-" + packagesFile
	err = s.volume.writeFile(staged, func(w io.Writer) error {
		d := describer{snapshot: snap, out: bufio.NewWriterSize(w, 256<<10)}
		if previous != nil {
			d.known = previous.description.Load()
		}
		return cmp.Or(d.write(ctx), d.out.Flush())
	})
	if err != nil {
		return err
	}
	s.publish.Lock()
	defer s.publish.Unlock()
	p, err := s.keepPackages(snap, staged)
	if err != nil {
		return err
	}
	snap.description.Store(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal() // some wait for the packages of what they know already
	return nil
}

// keepPackages publishes the file packages of a snapshot and opens it. That of content which nothing proves to be what was
// unpacked is only opened: on the volume it would pass for the proof.
func (s *Store) keepPackages(snap *Snapshot, staged string) (*packages, error) {
	if snap.Damaged() {
		p, err := openPackages(s.volume, staged, snap.index)
		return p, errors.Join(err, s.volume.Remove(staged)) // the opened file stays readable
	}
	name := path.Join(snap.dir, packagesFile)
	if err := s.volume.publishFile(staged, name); err != nil {
		return nil, err
	}
	return openPackages(s.volume, name, snap.index)
}

// describer writes a file packages.
type describer struct {
	snapshot *Snapshot
	known    *packages // of the snapshot before; may be nil
	out      *bufio.Writer
}

// verdict is what is found out of a package, as the lines that say so.
type verdict struct {
	first, second []byte
	content       fbc.Hash
	err           error
}

// write examines packages side by side, a few ahead of what is written: memory holds one blob for each, and some lines.
func (d *describer) write(ctx context.Context) error {
	const ahead = 64 // one large package does not hold up the others
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	groups := d.snapshot.packageBlobs()
	pending := make(chan chan verdict, ahead)
	go func() {
		defer close(pending)
		working := make(chan struct{}, runtime.GOMAXPROCS(0))
		for _, g := range groups {
			told := make(chan verdict, 1)
			select {
			case <-ctx.Done():
				return
			case pending <- told:
			}
			working <- struct{}{}
			go func() {
				told <- d.examine(g)
				<-working
			}()
		}
	}()
	var records []byte
	offset, i := uint64(0), 0
	for told := range pending {
		v := <-told
		if err := cmp.Or(ctx.Err(), v.err); err != nil {
			return err
		}
		r := packageRecord{key: groups[i].key, content: v.content, first: extentOf(v.first, offset)}
		if len(v.second) > 0 {
			r.second = extentOf(v.second, r.first.next())
		}
		records = r.append(records)
		offset = r.end()
		i++
		if err := d.writeLines(v.first, v.second); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := d.out.Write(appendFooter(records, d.snapshot.index))
	return err
}

func (d *describer) writeLines(lines ...[]byte) error {
	for _, line := range lines {
		if len(line) == 0 {
			continue
		}
		if _, err := d.out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// packageGroup is the blobs of a package that has to be sound.
type packageGroup struct {
	key      uint32 // of its name
	blobs    []uint32
	required bool // some blob has to belong to it
}

// packageBlobs gathers the blobs of each package, sorted by name.
func (s *Snapshot) packageBlobs() []packageGroup {
	groups := map[uint32]*packageGroup{}
	for n := range s.index.blobCount() {
		key, required := fbc.PackageOf(s.schema(n), s.index.blobKey(n, fieldPackage), s.index.blobKey(n, fieldName))
		g := groups[key]
		if g == nil {
			g = &packageGroup{key: key}
			groups[key] = g
		}
		g.blobs = append(g.blobs, n)
		g.required = g.required || required
	}
	var out []packageGroup
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if groups[key].required {
			out = append(out, *groups[key])
		}
	}
	return out
}

// examine finds out whether a package is sound. One whose blobs are those of a sound package of the snapshot before is
// sound, and what is said of it is taken from there.
func (d *describer) examine(g packageGroup) (v verdict) {
	s := d.snapshot
	name := string(s.index.key(g.key))
	defer func() {
		if r := recover(); r != nil { // of a rule: one package is not to end the process, again at each start
			v.first, v.err = marshalLine(InvalidPackage{Name: name, Reason: fmt.Sprintf("checking it failed: %v", r)})
			v.second = nil
		}
	}()
	v.content = s.contentOf(g.blobs)
	if d.takeKnown(name, &v) {
		return v
	}
	pkg, err := fbc.LoadPackage(name, s.soundBlobs(g.blobs))
	var invalid *fbc.InvalidPackageError
	switch {
	case errors.As(err, &invalid):
		v.first, v.err = marshalLine(InvalidPackage{Name: name, Reason: invalid.Reason})
	case err != nil:
		v.err = err
	default:
		if v.first, v.err = d.summaryLine(pkg, g.blobs); v.err == nil {
			v.second, v.err = marshalLine(pkg)
		}
	}
	return v
}

// contentOf is the hash of some blobs: that of their hashes.
func (s *Snapshot) contentOf(blobs []uint32) fbc.Hash {
	return fbc.HashOfBlobs(func(yield func(fbc.Hash) bool) {
		for _, n := range blobs {
			if !yield(s.index.hash(n)) {
				return
			}
		}
	})
}

// takeKnown takes the lines of a package from the snapshot before, if they are there and sound.
func (d *describer) takeKnown(name string, v *verdict) bool {
	if d.known == nil {
		return false
	}
	r, ok := d.known.find(name)
	if !ok || !r.sound() || r.content != v.content {
		return false
	}
	first, err := d.known.line(r, r.first)
	if err != nil {
		return false
	}
	second, err := d.known.line(r, r.second)
	if err != nil {
		return false
	}
	v.first, v.second = first, second
	return true
}

func (d *describer) summaryLine(pkg *fbc.Package, blobs []uint32) ([]byte, error) {
	s := d.snapshot
	var head []byte
	for _, n := range blobs {
		if s.is(n, fbc.SchemaBundle, pkg.DefaultHead()) {
			for blob, err := range s.soundBlobs([]uint32{n}) {
				if err != nil {
					return nil, err
				}
				head = blob
			}
			break
		}
	}
	return marshalLine(fbc.NewSummary(pkg, head))
}

// is tells whether blob n has a schema and a name.
func (s *Snapshot) is(n uint32, schema, name string) bool {
	return s.schema(n) == schema && string(s.index.key(s.index.blobKey(n, fieldName))) == name
}

func marshalLine(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // descriptions are Markdown, and nobody puts this file into HTML
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}
