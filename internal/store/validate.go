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

// validations validates the packages of snapshots and stores the results.
type validations struct {
	volume    *volume
	inventory *inventory
}

// ensure validates the packages of a snapshot unless that has been done. When it returns, the results are durable. Results
// for packages with the same blobs are copied from previous, which may be nil. The error can be a *DamagedError.
func (vs *validations) ensure(ctx context.Context, snap, previous *Snapshot) error {
	snap.validating.Lock()
	defer snap.validating.Unlock()
	if snap.Validated() {
		return nil
	}
	return vs.write(ctx, snap, previous)
}

// replace validates the packages of a snapshot again.
func (vs *validations) replace(ctx context.Context, snap *Snapshot) error {
	snap.validating.Lock()
	defer snap.validating.Unlock()
	return vs.write(ctx, snap, nil)
}

// mend validates the packages again if the stored results are missing or damaged, which it reports.
func (vs *validations) mend(ctx context.Context, snap *Snapshot) (damaged bool, err error) {
	stored := snap.validation.Load()
	switch {
	case stored == nil:
		return true, vs.ensure(ctx, snap, nil)
	case stored.verify() != nil, !vs.volume.endsWith(path.Join(snap.dir, packagesFile), stored.table, stored.size):
		return true, vs.replace(ctx, snap)
	}
	return false, nil
}

// write writes the file packages of a snapshot, as replaceFile does. It records damaged blobs. The caller holds the
// snapshot's validating.
func (vs *validations) write(ctx context.Context, snap, previous *Snapshot) (err error) {
	defer func() {
		if err != nil {
			snap.noteDamage(ctx, err)
			err = fmt.Errorf("validating the packages: %w", err)
		}
	}()
	staged := vs.volume.stageName() + "-" + packagesFile
	err = vs.volume.writeFile(staged, func(w io.Writer) error {
		v := validator{snapshot: snap, out: bufio.NewWriterSize(w, 256<<10)}
		if previous != nil {
			v.known = previous.validation.Load()
		}
		return cmp.Or(v.write(ctx), v.out.Flush())
	})
	if err != nil {
		return err
	}
	vs.volume.publishing.Lock()
	defer vs.volume.publishing.Unlock()
	results, err := vs.publish(snap, staged)
	if err != nil {
		return err
	}
	snap.validation.Store(results)
	vs.inventory.notify()
	return nil
}

// publish moves the file packages to its snapshot and opens it. That of a damaged snapshot is opened only: on the volume it
// would prove the content.
func (vs *validations) publish(snap *Snapshot, staged string) (*validation, error) {
	if snap.Damaged() {
		v, err := openValidation(vs.volume, staged, snap.index)
		return v, errors.Join(err, vs.volume.Remove(staged)) // the open file stays readable
	}
	name := path.Join(snap.dir, packagesFile)
	if err := vs.volume.publishFile(staged, name); err != nil {
		return nil, err
	}
	return openValidation(vs.volume, name, snap.index)
}

// validator writes a file packages.
type validator struct {
	snapshot *Snapshot
	known    *validation // of the previous snapshot; may be nil
	out      *bufio.Writer
}

// verdict is the result for a package, as lines of the file.
type verdict struct {
	key           uint32
	first, second []byte
	content       fbc.Hash
	err           error
}

// write validates all packages and writes the results. Memory holds one blob and some lines for each concurrent package.
func (v *validator) write(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var records []byte
	offset := uint64(0)
	for pending := range v.validateAll(ctx) {
		verdict := <-pending
		if err := cmp.Or(ctx.Err(), verdict.err); err != nil {
			return err
		}
		r := packageRecord{key: verdict.key, content: verdict.content, first: extentOf(verdict.first, offset)}
		if len(verdict.second) > 0 {
			r.second = extentOf(verdict.second, r.first.next())
		}
		records = r.append(records)
		offset = r.end()
		for _, line := range [][]byte{verdict.first, verdict.second} {
			if len(line) == 0 {
				continue
			}
			if _, err := v.out.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := v.out.Write(appendFooter(records, v.snapshot.index))
	return err
}

// validateAll validates packages concurrently. It returns a channel for each verdict, sorted by name of the package.
func (v *validator) validateAll(ctx context.Context) <-chan chan verdict {
	const ahead = 64 // so that one large package does not hold up the others
	pending := make(chan chan verdict, ahead)
	groups := v.snapshot.packageBlobs()
	go func() {
		defer close(pending)
		working := make(chan struct{}, runtime.GOMAXPROCS(0))
		for _, g := range groups {
			result := make(chan verdict, 1)
			select {
			case <-ctx.Done():
				return
			case pending <- result:
			}
			working <- struct{}{}
			go func() {
				result <- v.validate(g)
				<-working
			}()
		}
	}()
	return pending
}

// packageGroup is the blobs of a package.
type packageGroup struct {
	key      uint32 // of its name
	blobs    []uint32
	required bool // it has blobs that must belong to a package
}

// packageBlobs groups the blobs of each package that needs validation, sorted by name.
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

// validate validates a package. If a valid package of the previous snapshot has the same blobs, it copies the result.
func (v *validator) validate(g packageGroup) (out verdict) {
	s := v.snapshot
	name := string(s.index.key(g.key))
	out.key = g.key
	invalid := func(reason string) {
		out.first, out.err = marshalLine(InvalidPackage{Name: name, Reason: reason})
		out.second = nil
	}
	defer func() {
		if r := recover(); r != nil { // one package must not end the process at each start
			invalid(fmt.Sprintf("validation failed: %v", r))
		}
	}()
	out.content = s.contentOf(g.blobs)
	if v.copyKnown(name, &out) {
		return out
	}
	pkg, err := fbc.LoadPackage(name, s.intactBlobs(g.blobs))
	if why, ok := errors.AsType[*fbc.InvalidPackageError](err); ok {
		invalid(why.Reason)
		return out
	}
	if out.err = err; err == nil {
		out.first, out.err = v.summaryLine(pkg, g.blobs)
	}
	if out.err == nil {
		out.second, out.err = marshalLine(pkg)
	}
	return out
}

// contentOf returns the hash of some blobs: that of their hashes.
func (s *Snapshot) contentOf(blobs []uint32) fbc.Hash {
	return fbc.HashOfBlobs(func(yield func(fbc.Hash) bool) {
		for _, n := range blobs {
			if !yield(s.index.hash(n)) {
				return
			}
		}
	})
}

// copyKnown copies the result of the previous snapshot, if it is there, valid and intact.
func (v *validator) copyKnown(name string, out *verdict) bool {
	if v.known == nil {
		return false
	}
	r, ok := v.known.find(name)
	if !ok || !r.valid() || r.content != out.content {
		return false
	}
	first, err := v.known.line(r, r.first)
	second, err2 := v.known.line(r, r.second)
	if err != nil || err2 != nil {
		return false
	}
	out.first, out.second = first, second
	return true
}

func (v *validator) summaryLine(pkg *fbc.Package, blobs []uint32) ([]byte, error) {
	s := v.snapshot
	var head []byte
	for _, n := range blobs {
		if s.schema(n) != fbc.SchemaBundle || string(s.index.key(s.index.blobKey(n, fieldName))) != pkg.DefaultHead() {
			continue
		}
		for blob, err := range s.intactBlobs([]uint32{n}) {
			if err != nil {
				return nil, err
			}
			head = blob
		}
		break
	}
	return marshalLine(fbc.NewSummary(pkg, head))
}

func marshalLine(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // keep Markdown as it is
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}
