package olmv0

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/protobuf/proto"
)

// The file olmv0 of a snapshot has the response of ListBundles. Integers are little endian.
//
//	messages  an api.Bundle for each entry of each channel, in any order
//	order     of the entries, sorted by channel, package and bundle: offset u64, size u32, CRC-32C
//	report    JSON
//	footer    number of entries u32, size of the report u32, CRC-32C of all from order to here, magic "olmv0/01"
//
// Everything else is read from the other files of the snapshot: it is needed for one bundle at a time.
const (
	fileMagic  = "olmv0/01"
	entrySize  = 8 + 4 + 4
	footerSize = 4 + 4 + 4 + len(fileMagic)
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// errDamaged reports a damaged file; Prepare writes it again.
var errDamaged = errors.New("the stored response of ListBundles is damaged")

// Report names what clients of OLM v0 do not get.
type Report struct {
	LeftOut []LeftOut `json:"leftOut,omitempty"`
	Large   []Large   `json:"large,omitempty"`
}

// LeftOut is a package that is valid, but cannot be converted.
type LeftOut struct {
	Package string `json:"package"`
	Reason  string `json:"reason"`
}

// Large is a bundle whose message exceeds MaxMessage: that of GetBundle, and for a bundle without an image that of ListBundles
// too, which leaves it out.
type Large struct {
	Package string `json:"package"`
	Bundle  string `json:"bundle"`
	Bytes   int    `json:"bytes"`
}

// Missing describes each part of the report for people.
func (r Report) Missing() (out []string) {
	for _, l := range r.LeftOut {
		out = append(out, fmt.Sprintf("package %s (%s)", l.Package, l.Reason))
	}
	for _, l := range r.Large {
		out = append(out, fmt.Sprintf("bundle %s of package %s (its message of %d bytes exceeds the limit of %d)",
			l.Bundle, l.Package, l.Bytes, MaxMessage))
	}
	return out
}

// omits reports whether a package is left out.
func (r Report) omits(pkg string) bool {
	return slices.ContainsFunc(r.LeftOut, func(l LeftOut) bool { return l.Package == pkg })
}

// position is where the message of an entry is.
type position struct {
	offset    uint64
	size, sum uint32
}

// fileWriter writes a file. Memory holds the names of the entries.
type fileWriter struct {
	out     io.Writer
	limit   int // of a message
	offset  uint64
	entries []written
	pending []written // of the package that is being written
	report  Report
}

type written struct {
	channel, pkg, bundle string
	position
}

func (w *fileWriter) add(b *api.Bundle) error {
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
	if err != nil {
		return err
	}
	w.pending = append(w.pending, written{
		b.GetChannelName(), b.GetPackageName(), b.GetCsvName(),
		position{w.offset, uint32(len(message)), crc32.Checksum(message, castagnoli)},
	})
	n, err := w.out.Write(message)
	w.offset += uint64(n)
	return err
}

// end ends a package, which is left out if it cannot be converted.
func (w *fileWriter) end(pkg string, fault error) {
	if fault == nil {
		w.entries = append(w.entries, w.pending...)
	} else {
		w.report.LeftOut = append(w.report.LeftOut, LeftOut{Package: pkg, Reason: fault.Error()})
	}
	w.pending = w.pending[:0]
}

func (w *fileWriter) close() error {
	slices.SortFunc(w.entries, func(a, b written) int {
		return cmp.Or(cmp.Compare(a.channel, b.channel), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.bundle, b.bundle))
	})
	out := make([]byte, 0, len(w.entries)*entrySize+footerSize)
	for _, e := range w.entries {
		out = le.AppendUint64(out, e.offset)
		out = le.AppendUint32(le.AppendUint32(out, e.size), e.sum)
	}
	report, err := json.Marshal(w.report)
	if err != nil {
		return err
	}
	out = append(out, report...)
	out = le.AppendUint32(le.AppendUint32(out, uint32(len(w.entries))), uint32(len(report)))
	out = le.AppendUint32(out, crc32.Checksum(out, castagnoli))
	_, err = w.out.Write(append(out, fileMagic...))
	return err
}

// file is an opened file. It is immutable. If it is not closed, it is once nothing holds it.
type file struct {
	*os.File
	order  []byte
	report Report
}

// openFile checks all but the messages.
func openFile(f *os.File) (_ *file, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	footer := make([]byte, footerSize)
	if _, err := f.ReadAt(footer, stat.Size()-int64(footerSize)); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	orderSize, reportSize := int64(le.Uint32(footer))*entrySize, int64(le.Uint32(footer[4:]))
	start := stat.Size() - int64(footerSize) - reportSize - orderSize
	if string(footer[footerSize-len(fileMagic):]) != fileMagic || start < 0 {
		return nil, errDamaged
	}
	table := make([]byte, orderSize+reportSize+8)
	if _, err := f.ReadAt(table, start); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	out := &file{File: f, order: table[:orderSize:orderSize]}
	if crc32.Checksum(table, castagnoli) != le.Uint32(footer[8:]) ||
		json.Unmarshal(table[orderSize:orderSize+reportSize], &out.report) != nil {
		return nil, errDamaged
	}
	return out, nil
}

// messages returns the messages in the order of ListBundles, each in a slice of its own: gRPC may hold it longer than a
// step. The error is errDamaged.
func (f *file) messages() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for order := f.order; len(order) > 0; order = order[entrySize:] {
			message := make([]byte, le.Uint32(order[8:]))
			_, err := f.ReadAt(message, int64(le.Uint64(order)))
			if err != nil || crc32.Checksum(message, castagnoli) != le.Uint32(order[12:]) {
				yield(nil, errors.Join(errDamaged, err))
				return
			}
			if !yield(message, nil) {
				return
			}
		}
	}
}
