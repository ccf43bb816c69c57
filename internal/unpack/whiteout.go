package unpack

import (
	"path"
	"strings"
)

// Names of whiteouts, as the OCI image specification has them (layer.md, "Whiteouts").
const (
	whiteoutPrefix = ".wh."
	// opaque, after the prefix, hides all that lower layers have in the directory.
	opaque = ".wh..opq"
)

// applyWhiteout applies the entry .wh.<hidden> of directory parent. A whiteout hides what lower layers have and nothing of
// its own layer, wherever in the layer it stands.
func (t *tree) applyWhiteout(parent, hidden string) error {
	switch {
	case hidden == opaque:
		return t.hideIn(parent)
	case strings.HasPrefix(hidden, whiteoutPrefix):
		return nil // bookkeeping of AUFS
	case hidden == "" || hidden == "." || hidden == "..":
		return invalidf("%s is a whiteout of nothing", path.Join(parent, whiteoutPrefix)+hidden)
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

// hideIn removes what lower layers have in directory name. Doing so again in the same layer would find nothing.
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
