package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// kubectl runs the control plane's kubectl with the kubeconfig of this run.
type kubectl struct{ program, kubeconfig string }

func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	return process.Command(ctx, k.program, append([]string{"--kubeconfig", k.kubeconfig}, args...)...)
}

// run returns the standard output; standard error becomes the error.
func (k kubectl) run(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := k.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	return process.Output(cmd)
}

// writeScript writes a kubectl executable with the kubeconfig set, for users, that also finds plugins in a
// directory. The environment names the kubeconfig, as kubectl accepts no flags before the name of a plugin.
func (k kubectl) writeScript(path, plugins string) error {
	script := fmt.Sprintf("#!/bin/sh\nKUBECONFIG=%s PATH=%s:\"$PATH\" exec %s \"$@\"\n", shellQuote(k.kubeconfig), shellQuote(plugins),
		shellQuote(k.program))
	return os.WriteFile(path, []byte(script), 0o755)
}

func shellQuote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
