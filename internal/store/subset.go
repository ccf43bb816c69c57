package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/subset"
)

// stagedCatalog gives a filter the blobs of a stage, which lie in the spool.
type stagedCatalog struct {
	spool  *spool
	names  []string // by number in the table of keys
	places []place
}

// place is a blob of a file, and its offset in the spool.
type place struct {
	file   *readFile
	number uint32
	offset uint64
}

func newStagedCatalog(in *intake, files []*readFile) *stagedCatalog {
	c := &stagedCatalog{spool: in.spool, names: make([]string, len(in.keys.numbers))}
	for name, number := range in.keys.numbers {
		c.names[number] = name
	}
	for _, f := range files {
		offset := f.start
		for n, r := range f.blobs {
			c.places = append(c.places, place{f, uint32(n), offset})
			offset += uint64(r.size) + 1
		}
	}
	return c
}

func (c *stagedCatalog) Len() int { return len(c.places) }

func (c *stagedCatalog) record(i int) *blobRecord { return &c.places[i].file.blobs[c.places[i].number] }

func (c *stagedCatalog) Blob(i int) subset.Blob {
	keys := c.record(i).keys
	return subset.Blob{Schema: c.names[keys[0]], Package: c.names[keys[1]], Name: c.names[keys[2]], Version: c.names[keys[3]]}
}

// JSON reads a blob.
func (c *stagedCatalog) JSON(i int) ([]byte, error) {
	r := c.record(i)
	text := make([]byte, r.size)
	if _, err := c.spool.file.ReadAt(text, int64(c.places[i].offset)); err != nil {
		return nil, fmt.Errorf("reading a staged blob: %w", err)
	}
	if fbc.HashOf(text) != r.hash {
		return nil, errors.New("a staged blob does not match its hash: the volume is damaged")
	}
	return text, nil
}

// writeSubset writes the files of a snapshot of a part of the catalog, and the whole catalog. The files were read.
func (st *Stage) writeSubset(ctx context.Context, src Source, files []*readFile) error {
	if err := st.store.volume.RemoveAll(st.path("files")); err != nil { // there may be no room for more
		return err
	}
	room, err := st.store.space.usage()
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() { written <- st.writeWhole(ctx, src.wholeKey(), files, room) }()
	catalog := newStagedCatalog(st.intake, files)
	selected, err := src.Filter.Select(catalog)
	if err := errors.Join(<-written, err); err != nil {
		return err
	}
	kept, err := st.copySelected(catalog, selected)
	if err != nil {
		return err
	}
	builder := newIndexBuilder(st.intake.keys, []*readFile{kept})
	builder.files = nil // they have more blobs, so nothing can be reused of them
	st.intake.release()
	info := st.infoOf(src)
	info.Subset = &Subset{Filter: src.Filter.Fingerprint(), Report: selected.Report}
	arranged := make(chan error, 1)
	arranged <- nil
	return st.writeIndex(builder, info, arranged)
}

// copySelected writes catalog.jsonl with the selected blobs. It returns their records.
func (st *Stage) copySelected(c *stagedCatalog, selected *subset.Selection) (*readFile, error) {
	out, err := st.store.volume.Create(st.path("snapshot", catalogFile))
	if err != nil {
		return nil, err
	}
	w := &selectedWriter{spool: st.intake.spool, out: out, kept: &readFile{}, facts: map[*readFile]*[factCount]int{}}
	for i := range c.places {
		if err == nil && selected.Keeps(i) {
			err = w.add(c, selected, i)
		}
	}
	if err == nil {
		err = w.flush()
	}
	return w.kept, errors.Join(err, out.syncAndClose(err))
}

// selectedWriter copies runs of blobs from a spool.
type selectedWriter struct {
	spool      *spool
	out        *file
	kept       *readFile
	start, end uint64                        // the run that is to be copied
	facts      map[*readFile]*[factCount]int // by file: how many were looked at
}

// add adds a blob, changed by the selection.
func (w *selectedWriter) add(c *stagedCatalog, selected *subset.Selection, i int) error {
	p, record := c.places[i], *c.record(i)
	w.addFacts(p)
	if _, edited := selected.Edit(i); !edited {
		if p.offset != w.end {
			if err := w.flush(); err != nil {
				return err
			}
			w.start = p.offset
		}
		w.end = p.offset + uint64(record.size) + 1
		w.kept.blobs = append(w.kept.blobs, record)
		return nil
	}
	text, err := c.JSON(i)
	if err == nil {
		text, err = selected.Apply(i, text)
	}
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return err
	}
	record.size, record.hash = uint32(len(text)), fbc.HashOf(text)
	w.kept.blobs = append(w.kept.blobs, record)
	_, err = io.Copy(w.out, io.MultiReader(bytes.NewReader(text), bytes.NewReader([]byte("\n"))))
	return err
}

// addFacts copies the facts of a blob. Those of a file are in the order of its blobs.
func (w *selectedWriter) addFacts(p place) {
	at := w.facts[p.file]
	if at == nil {
		at = new([factCount]int)
		w.facts[p.file] = at
	}
	for kind, pairs := range p.file.facts {
		for ; at[kind] < len(pairs) && pairs[at[kind]].blob <= p.number; at[kind]++ {
			if pairs[at[kind]].blob == p.number {
				w.kept.facts[kind] = append(w.kept.facts[kind], pair{pairs[at[kind]].key, uint32(len(w.kept.blobs))})
			}
		}
	}
}

// flush copies the run.
func (w *selectedWriter) flush() error {
	if w.start == w.end {
		return nil
	}
	_, err := w.spool.file.Seek(int64(w.start), io.SeekStart)
	if err == nil {
		_, err = w.out.ReadFrom(io.LimitReader(w.spool.file.File, int64(w.end-w.start))) // the kernel copies
	}
	w.start, w.end = 0, 0
	return err
}
