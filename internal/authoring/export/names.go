package export

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
)

// maxDirName leaves room in the 255 bytes that file systems give a name.
const maxDirName = 200

var (
	dirName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9_-])?$`)
	notInDir = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// names gives each package a directory of its own. A name that could lead elsewhere, or that some file system takes for another's, is
// followed by a part of its hash.
type names struct {
	taken map[string]bool   // in lower case: some file systems know no other
	of    map[string]string // the directories by package
}

func (n names) dir(pkg string) string {
	if dir, ok := n.of[pkg]; ok {
		return dir
	}
	dir := pkg
	if len(pkg) > maxDirName || !dirName.MatchString(pkg) || n.taken[strings.ToLower(pkg)] {
		plain := notInDir.ReplaceAllString(pkg, "_")
		dir = fmt.Sprintf("%s-%x", plain[:min(len(plain), maxDirName)], sha256.Sum256([]byte(pkg)))[:min(len(plain), maxDirName)+17]
	}
	n.of[pkg], n.taken[strings.ToLower(dir)] = dir, true
	return dir
}
