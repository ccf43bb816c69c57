package unpack

import "fmt"

// Limits bound what an image may take. A field that is zero has the value of DefaultLimits.
type Limits struct {
	TotalBytes int64 // bytes of all files together, those that a later layer replaces included; also of one layer, compressed
	FileBytes  int64 // bytes of one file
	Files      int   // files and directories, those that a later layer replaces included
	Ratio      int   // unpacked bytes for each byte of a layer; not applied to a layer's first 16 MiB

	// DatabaseBytes are those of an SQLite index, which is converted in memory, up to 20 times as much; what the
	// conversion reads, a bundle once for each of its channels, may be twice that.
	DatabaseBytes int64
}

// DefaultLimits returns limits that leave catalogs an order of magnitude of room and still fit a node's disk; that for
// databases, its memory.
func DefaultLimits() Limits {
	return Limits{TotalBytes: 8 << 30, FileBytes: 1 << 30, Files: 100_000, Ratio: 200, DatabaseBytes: 64 << 20}
}

func (l Limits) withDefaults() Limits {
	defaults := DefaultLimits()
	setDefault(&l.TotalBytes, defaults.TotalBytes)
	setDefault(&l.FileBytes, defaults.FileBytes)
	setDefault(&l.Files, defaults.Files)
	setDefault(&l.Ratio, defaults.Ratio)
	setDefault(&l.DatabaseBytes, defaults.DatabaseBytes)
	return l
}

func setDefault[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// What a LimitError names: the limits that an image can exceed.
const (
	LimitTotalBytes       = "TotalBytes"
	LimitFileBytes        = "FileBytes"
	LimitFiles            = "Files"
	LimitCompressionRatio = "CompressionRatio"
	LimitDatabaseBytes    = "DatabaseBytes"
)

// LimitError says that an image takes more than a limit allows. It comes wrapped in an InvalidImageError.
type LimitError struct {
	Limit string // LimitTotalBytes, LimitFileBytes, LimitFiles, LimitCompressionRatio or LimitDatabaseBytes
	Value int64  // of the limit

	found string // what exceeds it: "configs/foo/catalog.json has 1200 bytes"
}

// Error names what exceeds the limit, its value and the flag that sets it.
func (e *LimitError) Error() string {
	unit, flag := limitText(e.Limit)
	return fmt.Sprintf("%s, more than the limit of %d%s (%s)", e.found, e.Value, unit, flag)
}

// limitText is the one place that knows the flags of cmd/catalogd, and only as text.
func limitText(limit string) (unit, flag string) {
	switch limit {
	case LimitTotalBytes:
		return " for all files together", "--max-unpacked-bytes"
	case LimitFileBytes:
		return " for one file", "--max-file-bytes"
	case LimitFiles:
		return "", "--max-files"
	case LimitCompressionRatio:
		return " times", "--max-compression-ratio"
	default:
		return " for an SQLite index", "--max-database-bytes"
	}
}

func exceeded(limit string, value int64, format string, args ...any) error {
	return &InvalidImageError{Err: &LimitError{Limit: limit, Value: value, found: fmt.Sprintf(format, args...)}}
}
