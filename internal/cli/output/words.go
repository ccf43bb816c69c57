package output

import (
	"fmt"
	"strings"
)

// Counted returns a number with its noun in singular or plural.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ShortDigest returns the first 12 hexadecimal digits of a digest, as container tools do.
func ShortDigest(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(12, len(hex))]
}

// First returns the first n names, and the number of the others.
func First(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// WithoutEmpty returns the names that are not empty.
func WithoutEmpty(names ...string) []string {
	var kept []string
	for _, name := range names {
		if name != "" {
			kept = append(kept, name)
		}
	}
	return kept
}

// Bytes returns a size in words: 512 B, 1.5 KiB, 109.0 MiB.
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/(1<<10), 0
	for ; size >= 1023.95 && unit < 3; unit++ {
		size /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", size, "KMGT"[unit])
}
