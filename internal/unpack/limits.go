package unpack

import (
	"cmp"
	"fmt"
)

// Limits limit the resources of an image. A zero field means the value of DefaultLimits.
type Limits struct {
	TotalBytes int64 // bytes of all files, including those replaced by a later layer; also the compressed bytes of one layer
	FileBytes  int64 // bytes of one file
	Files      int   // files and directories, including those replaced by a later layer
	Ratio      int   // unpacked bytes for each byte of a layer; not applied to a layer's first 16 MiB

	// DatabaseBytes limits an SQLite index. Its conversion takes up to 20 times as much memory. The rows read
	// may have twice that size, counting a bundle once for each of its channels.
	DatabaseBytes int64
}

// DefaultLimits returns limits ten times larger than known catalogs that still fit a node's disk and, for
// databases, its memory.
func DefaultLimits() Limits {
	return Limits{TotalBytes: 8 << 30, FileBytes: 1 << 30, Files: 100_000, Ratio: 200, DatabaseBytes: 64 << 20}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		TotalBytes: cmp.Or(l.TotalBytes, d.TotalBytes), FileBytes: cmp.Or(l.FileBytes, d.FileBytes),
		Files: cmp.Or(l.Files, d.Files), Ratio: cmp.Or(l.Ratio, d.Ratio), DatabaseBytes: cmp.Or(l.DatabaseBytes, d.DatabaseBytes),
	}
}

// Values of LimitError.Limit: the flags of cmd/catalogd that set the limits.
const (
	LimitTotalBytes       = "--max-unpacked-bytes"
	LimitFileBytes        = "--max-file-bytes"
	LimitFiles            = "--max-files"
	LimitCompressionRatio = "--max-compression-ratio"
	LimitDatabaseBytes    = "--max-database-bytes"
)

// limitUnits follow the value of a limit in messages.
var limitUnits = map[string]string{
	LimitTotalBytes: " for all files together", LimitFileBytes: " for one file",
	LimitCompressionRatio: " times", LimitDatabaseBytes: " for an SQLite index",
}

// LimitError is an exceeded limit, wrapped in an InvalidImageError.
type LimitError struct {
	Limit string // LimitTotalBytes, LimitFileBytes, LimitFiles, LimitCompressionRatio or LimitDatabaseBytes
	Value int64  // of the limit

	found string // what exceeds it: "configs/foo/catalog.json has 1200 bytes"
}

// Error names the object that exceeds the limit, the limit and its flag.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s, which exceeds the limit of %d%s (%s)", e.found, e.Value, limitUnits[e.Limit], e.Limit)
}

func exceeded(limit string, value int64, format string, args ...any) error {
	return &InvalidImageError{Err: &LimitError{Limit: limit, Value: value, found: fmt.Sprintf(format, args...)}}
}
