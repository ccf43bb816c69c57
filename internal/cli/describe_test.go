package cli

import (
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

func TestDescribeRemovesControlCharacters(t *testing.T) {
	c := missingImage("")
	c.Spec = v1beta1.CatalogSourceSpec{
		ExtractContent: &v1beta1.ExtractContent{ConfigDir: "a\x1b[2J"},
		Registry:       &v1beta1.RegistryAccess{Mirrors: []v1beta1.RegistryMirror{{Location: "b\x1b[2J"}}},
	}
	c.Annotations = map[string]string{v1beta1.ImageTemplateAnnotation: "c\x1b[2J"}
	c.Status.Content = &v1beta1.CatalogContent{Source: "d\x1b[2J", InvalidPackageCount: 1}
	code, stdout, stderr := run(t, "describe", "mine", "--server", cluster(t, nil, c))
	if code != exit.OK || strings.ContainsRune(stdout+stderr, '\x1b') || strings.Count(stdout, "\ufffd[2J") < 5 {
		t.Errorf("exit code %d: %q %q", code, stdout, stderr)
	}
}
