package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// settled are the settings of Go that decide about the bytes of a program, so that they do not depend on who builds.
var settled = []string{"GOFLAGS=-trimpath -buildvcs=false", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8", "GOFIPS140=off", "GOEXPERIMENT="}

// compile builds catalogd as a static program.
func compile(ctx context.Context, platform v1.Platform, version, to string, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", to, "github.com/operator-catalogs/catalogd/cmd/catalogd")
	cmd.Env = slices.Concat(os.Environ(), settled, []string{"GOOS=" + platform.OS, "GOARCH=" + platform.Architecture})
	cmd.Stderr = stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling for %s: %w", platform, err)
	}
	return nil
}
