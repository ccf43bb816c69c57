package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// example is a command of a document and its documented output.
type example struct {
	line    int
	command string
	output  string
}

// examplesOf reads the examples of a document from its console blocks. A command begins with "$ " and continues
// after a backslash, or in an open single quote or here-document; its output follows. section is the heading of
// second level above it.
func examplesOf(t *testing.T, file, section string) (found []example) {
	t.Helper()
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	heading, inBlock, open := "", false, false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock, open = line == "```console", false
		case !inBlock:
			if after, ok := strings.CutPrefix(line, "## "); ok {
				heading = after
			}
		case heading != section:
		case strings.HasPrefix(line, "$ ") && !open:
			found = append(found, example{line: i + 1, command: line[2:]})
			open = goesOn(line)
		case len(found) == 0:
			t.Fatalf("%s:%d: a block marked console has to begin with a command", file, i+1)
		case open:
			last := &found[len(found)-1]
			last.command += "\n" + line
			open = goesOn(last.command)
		default:
			found[len(found)-1].output += line + "\n"
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no examples under %q", file, section)
	}
	return found
}

func goesOn(command string) bool {
	if strings.Contains(command, "<<'EOF'") {
		return !strings.HasSuffix(command, "\nEOF")
	}
	return strings.HasSuffix(command, `\`) || strings.Count(command, "'")%2 == 1
}

// runExamples runs the examples one after another in one shell, and compares their output. In the expected output,
// "..." stands for any text, and on a line of its own for any lines.
func runExamples(t *testing.T, examples []example, env ...string) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the examples need %s: install it", tool)
		}
	}
	const end = "--- end of an example ---"
	var script strings.Builder
	for _, e := range examples {
		fmt.Fprintf(&script, "%s\necho '%s'\n", e.command, end)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, "PATH="+filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"))+":"+os.Getenv("PATH"))
	cmd.Dir = ".."
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the examples: %v\n%s", err, output)
	}
	outputs := strings.Split(string(output), end+"\n")
	for i, e := range examples {
		if !expected(e.output).MatchString(outputs[i]) {
			t.Errorf("line %d: $ %s\nprints\n%s\nnot, as the document says,\n%s", e.line, e.command, outputs[i], e.output)
		}
	}
}

func expected(output string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(output)
	pattern = regexp.MustCompile(`(?m)^\\.\\.\\.\n`).ReplaceAllString(pattern, `(?s:.*)`)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile(`^` + pattern + `$`)
}

// TestAPIExamples runs the commands of docs/api.md with the sample catalog, as `make run` serves it.
func TestAPIExamples(t *testing.T) {
	const url = "http://127.0.0.1:8080" // documented; it occurs in replies
	w := newWorld(t, shared, "--external-url", url)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	w.waitCompressed(t, "sample")
	const doc = "../docs/api.md"
	for _, section := range sectionsOf(t, doc) {
		if section == protected {
			continue // TestProtectedExamples
		}
		t.Run(section, func(t *testing.T) {
			runExamples(t, examplesOf(t, doc, section), "CATALOGD=http://"+w.content)
		})
	}
}

// protected is the section of docs/api.md about a service with authentication.
const protected = "A protected service"

// sectionsOf returns the headings of second level that have examples.
func sectionsOf(t *testing.T, file string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	heading := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if after, ok := strings.CutPrefix(line, "## "); ok {
			heading = after
		}
		if line == "```console" && (len(found) == 0 || found[len(found)-1] != heading) {
			found = append(found, heading)
		}
	}
	return found
}

// waitCompressed waits until a catalog is there in its compressed forms too.
func (w *world) waitCompressed(t *testing.T, catalog string) {
	t.Helper()
	for _, encoding := range []string{"zstd", "gzip"} {
		eventually.Succeeds(t, "the "+encoding+" form is made", func() error {
			r, err := tryGetWith(w.contentURL(catalog, "/api/v1/all"), map[string]string{"Accept-Encoding": encoding})
			if err == nil && r.header.Get("Content-Encoding") != encoding {
				err = fmt.Errorf("Content-Encoding is %q", r.header.Get("Content-Encoding"))
			}
			return err
		})
	}
}
