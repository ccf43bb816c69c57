package status

import (
	"fmt"
	"strings"
)

// Truncate limits text that comes from a catalog to a number of bytes.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// insecureNote names the registries that are not verified, as a sentence to append.
func insecureNote(registries []string) string {
	if len(registries) == 0 {
		return ""
	}
	return fmt.Sprintf(" Not verified, since insecure is set: %s.", strings.Join(registries, ", "))
}

// sentence makes a sentence of an error. It keeps the case of a first word that is a name, such as a field path.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if text == "" {
		return text
	}
	if first, _, _ := strings.Cut(text, " "); !strings.ContainsAny(strings.TrimRight(first, ".:,"), "./:@") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
