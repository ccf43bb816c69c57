// Package reproducible builds release artifacts: the same source and the same Go give the same bytes.
package reproducible

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

// Settled are the settings of Go that affect the bytes of a program.
var Settled = []string{
	"GOFLAGS=-trimpath -buildvcs=false", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8", "GOFIPS140=off", "GOEXPERIMENT=",
}

// Compile builds cmd/NAME of this module as a static, stripped program with its version.
func Compile(ctx context.Context, name, system, arch, version, to string, stderr io.Writer) error {
	program := "github.com/operator-catalogs/catalogd/cmd/" + name
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", to, program)
	cmd.Env = slices.Concat(os.Environ(), Settled, []string{"GOOS=" + system, "GOARCH=" + arch})
	cmd.Stderr = stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling %s for %s/%s: %w", name, system, arch, err)
	}
	return nil
}
