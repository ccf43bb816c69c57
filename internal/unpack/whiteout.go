package unpack

import (
	"path"
	"strings"
)

// Names of whiteouts (OCI image specification, layer.md, "Whiteouts").
const (
	whiteoutPrefix = ".wh."
	// opaque, after the prefix, hides all content of lower layers in the directory.
	opaque = ".wh..opq"
)

// applyWhiteout applies the entry .wh.<hidden> of directory parent. A whiteout hides content of lower layers
// only, wherever it stands in its layer.
func (t *tree) applyWhiteout(parent, hidden string) error {
	switch {
	case hidden == opaque:
		return t.hideIn(parent)
	case strings.HasPrefix(hidden, whiteoutPrefix):
		return nil // bookkeeping of AUFS
	case hidden == "" || hidden == "." || hidden == "..":
		return invalidf("%s is a whiteout without a name", path.Join(parent, whiteoutPrefix)+hidden)
	default:
		return t.hide(path.Join(parent, hidden))
	}
}

// hide removes what lower layers have at name and below it.
func (t *tree) hide(name string) error {
	switch {
	case !t.isInside(name) && !t.isAbove(name):
		return nil
	case t.isTouched(name):
		return t.hideIn(name)
	default:
		return t.remove(name)
	}
}

// hideIn hides the content of lower layers in directory name, once for each layer.
func (t *tree) hideIn(name string) error {
	if _, done := t.cleared[t.hash(name)]; done || !t.isInside(name) && !t.isAbove(name) {
		return nil
	}
	t.cleared[t.hash(name)] = struct{}{}
	children, err := t.list(name)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := t.hide(child); err != nil {
			return err
		}
	}
	return nil
}
