package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"sort"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// The file packages of a snapshot says of each package whether it is sound, and of a sound one what lists and searches need:
// lines of JSON, then a table of where they are, which is read in place. All integers are little endian.
//
//	lines     of each package an fbc.Summary and an fbc.Package, or an InvalidPackage; each ended by a newline
//	records   key u32 (its number in the index), content hash, offset u64 of the first line, and of both lines: size u32
//	          (without the newline; 0 of the second where the package is not sound), CRC-32C; sorted by key, which is
//	          sorted by name
//	footer    count of the records u32, CRC-32C of the index's keys and what precedes them, CRC-32C of the records and the
//	          footer so far, magic "fbcpacks"
const (
	packagesMagic = "fbcpacks"
	recordSize    = 4 + fbc.HashSize + 8 + 4*4
	footerSize    = 4 + 4 + 4 + 8
)

// PackageVersion is a sound package and the hash of all its blobs.
type PackageVersion struct {
	Name string
	Hash string // hex; equal hashes mean equal bytes
}

// InvalidPackage is a package that is served as it is but is not sound.
type InvalidPackage struct {
	Name   string `json:"name"` // empty for blobs that should say which package they belong to and do not
	Reason string `json:"reason"`
	Hash   string `json:"-"` // as that of a PackageVersion; not part of the line
}

// packages is an opened file packages. All of it is immutable.
type packages struct {
	file    *os.File
	size    int64  // of the file
	table   []byte // records and footer
	records []byte
	index   *index
}

// packageRecord is what the table has of a package.
type packageRecord struct {
	key     uint32
	content fbc.Hash
	first   extent // the summary, or why it is not sound
	second  extent // the package; of one that is not sound it is empty
}

// extent is where a line lies, and what it has to be.
type extent struct {
	offset    uint64
	size, sum uint32
}

// next is where the line behind this one begins.
func (e extent) next() uint64 { return e.offset + uint64(e.size) + 1 }

func extentOf(line []byte, offset uint64) extent {
	return extent{offset, uint32(len(line)), crc32.Checksum(line, castagnoli)}
}

func (r packageRecord) sound() bool { return r.second.size > 0 }

// end is where the lines of the package end.
func (r packageRecord) end() uint64 {
	if r.sound() {
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

// appendFooter ends a file packages behind its records.
func appendFooter(records []byte, ix *index) []byte {
	out := le.AppendUint32(records, uint32(len(records)/recordSize))
	out = le.AppendUint32(out, ix.sum)
	out = le.AppendUint32(out, crc32.Checksum(out, castagnoli))
	return append(out, packagesMagic...)
}

// ErrValidationDamaged says that what the volume has of the description of the packages cannot be read, or is not what was written.
// Revalidate makes it again.
var ErrValidationDamaged = errors.New("the description of the packages is damaged")

// openPackages opens a file packages and checks its table, so that nothing read from that later can be out of bounds.
func openPackages(v *volume, name string, ix *index) (_ *packages, err error) {
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
	p := &packages{file: f, size: stat.Size(), table: table, records: records, index: ix}
	return p, p.check(uint64(start))
}

// check looks at every number that is later used as one; end is where the lines end.
func (p *packages) check(end uint64) error {
	next := uint64(0)
	for i := range p.count() {
		r := p.at(i)
		if r.first.offset != next || r.key >= p.index.keyCount() || (i > 0 && p.at(i-1).key >= r.key) {
			return ErrValidationDamaged
		}
		next = r.end()
	}
	if next != end {
		return ErrValidationDamaged
	}
	return nil
}

func (p *packages) count() int { return len(p.records) / recordSize }

func (p *packages) at(i int) packageRecord {
	b := p.records[i*recordSize:]
	r := packageRecord{key: le.Uint32(b), content: fbc.Hash(b[4:][:fbc.HashSize])}
	b = b[4+fbc.HashSize:]
	r.first = extent{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])}
	r.second = extent{r.first.next(), le.Uint32(b[16:]), le.Uint32(b[20:])}
	return r
}

// name is the name of the package of a record, in place.
func (p *packages) name(r packageRecord) []byte { return p.index.key(r.key) }

// find returns the record of a package.
func (p *packages) find(name string) (packageRecord, bool) {
	i := sort.Search(p.count(), func(i int) bool { return string(p.name(p.at(i))) >= name })
	if i == p.count() || string(p.name(p.at(i))) != name {
		return packageRecord{}, false
	}
	return p.at(i), true
}

// line reads a line of a record; one that is not there is nil.
func (p *packages) line(r packageRecord, at extent) ([]byte, error) {
	if at.size == 0 {
		return nil, nil
	}
	line := make([]byte, int(at.size)+1)
	if _, err := p.file.ReadAt(line, int64(at.offset)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("%w: %w", ErrValidationDamaged, err)
	}
	line, newline := line[:at.size], line[at.size]
	if crc32.Checksum(line, castagnoli) != at.sum || newline != '\n' {
		return nil, fmt.Errorf("%w: that of package %q", ErrValidationDamaged, p.name(r))
	}
	return line, nil
}

// verify reads all lines and compares them with their checksums.
func (p *packages) verify() error {
	for i := range p.count() {
		r := p.at(i)
		for _, at := range []extent{r.first, r.second} {
			if _, err := p.line(r, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// Described tells whether it is known which packages are sound and what they are. It is, but for a few seconds after a
// catalog began to serve its first content, or after a crash in them.
func (s *Snapshot) Validated() bool { return s.description.Load() != nil }

// ErrNotValidated says that the packages of a snapshot are not described yet.
var ErrNotValidated = errors.New("the packages of the catalog are not validated yet")

// Packages lists the sound packages, sorted by name; none while they are not described.
func (s *Snapshot) Packages() []PackageVersion {
	var out []PackageVersion
	for p, r := range s.records() {
		if r.sound() {
			out = append(out, PackageVersion{Name: string(p.name(r)), Hash: r.content.String()})
		}
	}
	return out
}

// PackageHash returns the hash of a package, sound or not, as that of a PackageVersion; "" if there is none or it is not described.
func (s *Snapshot) PackageHash(name string) string {
	if p := s.description.Load(); p != nil {
		if r, ok := p.find(name); ok {
			return r.content.String()
		}
	}
	return ""
}

// ValidNames lists the names of the sound packages, sorted; none while they are not described.
func (s *Snapshot) ValidNames() []string {
	var out []string
	for p, r := range s.records() {
		if r.sound() {
			out = append(out, string(p.name(r)))
		}
	}
	return out
}

// IsValid tells whether a package is there and sound; not while that is not described.
func (s *Snapshot) IsValid(name string) bool {
	p := s.description.Load()
	if p == nil {
		return false
	}
	r, ok := p.find(name)
	return ok && r.sound()
}

// InvalidPackageCount is how many packages are not sound; 0 while they are not described.
func (s *Snapshot) InvalidPackageCount() int {
	n := 0
	for _, r := range s.records() {
		if !r.sound() {
			n++
		}
	}
	return n
}

// InvalidPackages lists the packages that are not sound, sorted by name; none while they are not described.
func (s *Snapshot) InvalidPackages() ([]InvalidPackage, error) {
	var out []InvalidPackage
	for p, r := range s.records() {
		if r.sound() {
			continue
		}
		line, err := p.line(r, r.first)
		if err != nil {
			return nil, err
		}
		var invalid InvalidPackage
		if err := json.Unmarshal(line, &invalid); err != nil {
			return nil, err
		}
		invalid.Hash = r.content.String()
		out = append(out, invalid)
	}
	return out, nil
}

// records gives what is known of each package, sorted by name.
func (s *Snapshot) records() iter.Seq2[*packages, packageRecord] {
	return func(yield func(*packages, packageRecord) bool) {
		p := s.description.Load()
		for i := 0; p != nil && i < p.count() && yield(p, p.at(i)); i++ {
		}
	}
}

// Summaries gives the summaries of the sound packages, sorted by name. They are read from a file of the snapshot one
// by one; nothing is held. An error ends the sequence: ErrNotValidated, for one.
func (s *Snapshot) Summaries() iter.Seq2[fbc.Summary, error] {
	return func(yield func(fbc.Summary, error) bool) {
		if !s.Validated() {
			yield(fbc.Summary{}, ErrNotValidated)
			return
		}
		for p, r := range s.records() {
			if !r.sound() {
				continue
			}
			summary, err := p.summary(r)
			if !yield(summary, err) || err != nil {
				return
			}
		}
	}
}

// Summary returns the summary of a sound package, reading no other. An error may be ErrNotValidated.
func (s *Snapshot) Summary(name string) (summary fbc.Summary, ok bool, err error) {
	p := s.description.Load()
	if p == nil {
		return summary, false, ErrNotValidated
	}
	r, ok := p.find(name)
	if !ok || !r.sound() {
		return summary, false, nil
	}
	summary, err = p.summary(r)
	return summary, err == nil, err
}

func (p *packages) summary(r packageRecord) (summary fbc.Summary, err error) {
	line, err := p.line(r, r.first)
	if err != nil {
		return summary, err
	}
	return summary, json.Unmarshal(line, &summary)
}

// LoadPackage returns what fbc.LoadPackage returned of a sound package when it was described. An error may be ErrNotValidated.
func (s *Snapshot) LoadPackage(name string) (*fbc.Package, error) {
	p := s.description.Load()
	if p == nil {
		return nil, ErrNotValidated
	}
	r, ok := p.find(name)
	if !ok || !r.sound() {
		return nil, fmt.Errorf("there is no sound package %q", name)
	}
	line, err := p.line(r, r.second)
	if err != nil {
		return nil, err
	}
	pkg := &fbc.Package{}
	return pkg, json.Unmarshal(line, pkg)
}
