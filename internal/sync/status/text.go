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
	return fmt.Sprintf(" Not verified, as insecure is set for it: %s.", strings.Join(registries, ", "))
}

// sentence makes a sentence of an error.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if text == "" {
		return text
	}
	text = strings.ToUpper(text[:1]) + text[1:]
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
