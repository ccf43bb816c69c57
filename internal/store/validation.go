package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sort"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// The file packages of a snapshot has the results of the validation: which packages are valid, and of those what lists and
// searches need. It has lines of JSON, then a table of their positions, which is read in place. Integers are little endian.
//
//	lines     for each package an fbc.Summary and an fbc.Package, or an InvalidPackage; each ended by a newline
//	records   key u32 (its number in the index), content hash, offset u64 of the first line, and of both lines: size u32
//	          (without the newline; 0 of the second if the package is invalid), CRC-32C; sorted by key, which is sorted by
//	          name
//	footer    count of the records u32, CRC-32C of the index's keys and what precedes them, CRC-32C of the records and the
//	          footer so far, magic "fbcpack2"
//
// The magic is the version of the lines. Change it when fbc.NewSummary or fbc.LoadPackage return other results for the same blobs. A
// release treats a file with another magic as missing: it validates the packages again and replaces the file. Lines of "fbcpacks" had
// no platforms, features, install modes and icon hashes.
const (
	packagesMagic = "fbcpack2"
	recordSize    = 4 + fbc.HashSize + 8 + 4*4
	footerSize    = 4 + 4 + 4 + 8
)

// PackageVersion is a valid package and the hash of all its blobs.
type PackageVersion struct {
	Name string
	Hash string // hex; equal hashes mean equal bytes
}

// InvalidPackage is an invalid package. Its blobs are served unchanged.
type InvalidPackage struct {
	Name   string `json:"name"` // empty for blobs that do not name their package
	Reason string `json:"reason"`
	Hash   string `json:"-"` // as in PackageVersion; not in the line
}

// validation is an opened file packages. It is immutable.
type validation struct {
	file    *os.File
	size    int64  // of the file
	table   []byte // records and footer
	records []byte
	index   *index
}

// packageRecord is the record of a package.
type packageRecord struct {
	key     uint32
	content fbc.Hash
	first   extent // the summary, or the InvalidPackage
	second  extent // the package; empty if it is invalid
}

// extent is the position and the checksum of a line.
type extent struct {
	offset    uint64
	size, sum uint32
}

// next returns where the next line begins.
func (e extent) next() uint64 { return e.offset + uint64(e.size) + 1 }

func extentOf(line []byte, offset uint64) extent {
	return extent{offset, uint32(len(line)), crc32.Checksum(line, castagnoli)}
}

func (r packageRecord) valid() bool { return r.second.size > 0 }

// end returns where the lines of the package end.
func (r packageRecord) end() uint64 {
	if r.valid() {
		return r.second.next()
	}
	return r.first.next()
}

func (r packageRecord) append(out []byte) []byte {
	out = le.AppendUint32(out, r.key)
	out = append(out, r.content[:]...)
	out = le.AppendUint64(out, r.first.offset)
	for _, e := range []extent{r.first, r.second} {
		out = le.AppendUint32(out, e.size)
		out = le.AppendUint32(out, e.sum)
	}
	return out
}

// appendFooter appends the footer to the records.
func appendFooter(records []byte, ix *index) []byte {
	out := le.AppendUint32(records, uint32(len(records)/recordSize))
	out = le.AppendUint32(out, ix.sum)
	out = le.AppendUint32(out, crc32.Checksum(out, castagnoli))
	return append(out, packagesMagic...)
}

// ErrValidationDamaged reports that the stored results of the validation are unreadable or damaged. Revalidate replaces them.
var ErrValidationDamaged = errors.New("the stored validation results of the packages are damaged")

// openValidation opens a file packages and checks its table, so that no later read is out of bounds.
func openValidation(v *volume, name string, ix *index) (_ *validation, err error) {
	f, err := v.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var footer [footerSize]byte
	if _, err := f.ReadAt(footer[:], stat.Size()-footerSize); err != nil {
		return nil, err
	}
	size := int64(le.Uint32(footer[:]))*recordSize + footerSize
	start := stat.Size() - size
	if string(footer[footerSize-8:]) != packagesMagic || le.Uint32(footer[4:]) != ix.sum || start < 0 {
		return nil, ErrValidationDamaged
	}
	table := make([]byte, size)
	if _, err := f.ReadAt(table, start); err != nil {
		return nil, err
	}
	records, count := table[:size-footerSize], table[:size-footerSize+8]
	if crc32.Checksum(count, castagnoli) != le.Uint32(footer[8:]) {
		return nil, ErrValidationDamaged
	}
	p := &validation{file: f, size: stat.Size(), table: table, records: records, index: ix}
	return p, p.check(uint64(start))
}

// check checks every number of the table; end is where the lines end.
func (v *validation) check(end uint64) error {
	next := uint64(0)
	for i := range v.count() {
		r := v.at(i)
		if r.first.offset != next || r.key >= v.index.keyCount() || (i > 0 && v.at(i-1).key >= r.key) {
			return ErrValidationDamaged
		}
		next = r.end()
	}
	if next != end {
		return ErrValidationDamaged
	}
	return nil
}

func (v *validation) count() int { return len(v.records) / recordSize }

func (v *validation) at(i int) packageRecord {
	b := v.records[i*recordSize:]
	r := packageRecord{key: le.Uint32(b), content: fbc.Hash(b[4:][:fbc.HashSize])}
	b = b[4+fbc.HashSize:]
	r.first = extent{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])}
	r.second = extent{r.first.next(), le.Uint32(b[16:]), le.Uint32(b[20:])}
	return r
}

// name returns the name of the package of a record, in place.
func (v *validation) name(r packageRecord) []byte { return v.index.key(r.key) }

// find returns the record of a package.
func (v *validation) find(name string) (packageRecord, bool) {
	i := sort.Search(v.count(), func(i int) bool { return string(v.name(v.at(i))) >= name })
	if i == v.count() || string(v.name(v.at(i))) != name {
		return packageRecord{}, false
	}
	return v.at(i), true
}

// line reads a line of a record; nil if it has no such line.
func (v *validation) line(r packageRecord, at extent) ([]byte, error) {
	if at.size == 0 {
		return nil, nil
	}
	line := make([]byte, int(at.size)+1)
	if _, err := v.file.ReadAt(line, int64(at.offset)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("%w: %w", ErrValidationDamaged, err)
	}
	line, newline := line[:at.size], line[at.size]
	if crc32.Checksum(line, castagnoli) != at.sum || newline != '\n' {
		return nil, fmt.Errorf("%w: package %q", ErrValidationDamaged, v.name(r))
	}
	return line, nil
}

// verify compares all lines with their checksums.
func (v *validation) verify() error {
	for i := range v.count() {
		r := v.at(i)
		for _, at := range []extent{r.first, r.second} {
			if _, err := v.line(r, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// decode decodes a line of a record.
func decode[T any](v *validation, r packageRecord, at extent) (out T, err error) {
	line, err := v.line(r, at)
	if err == nil {
		err = json.Unmarshal(line, &out)
	}
	return out, err
}
