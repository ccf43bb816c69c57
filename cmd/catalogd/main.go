// Command catalogd unpacks operator catalogs onto its volume, publishes their packages and serves their content over HTTP.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set when the program is built.
var version = "unknown"

func main() {
	cfg, err := parseFlags(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "catalogd: %v\nRun 'catalogd --help' for usage.\n", err)
		os.Exit(2)
	}
	if cfg.showVersion {
		fmt.Println("catalogd", version)
		return
	}
	if os.Getenv("HOME") == "" {
		// A pod's arbitrary user has no home. The library that reads --registries-conf fails without one, but does not use it.
		_ = os.Setenv("HOME", "/") // fails for bad names only
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, setLogger(cfg)); err != nil {
		fmt.Fprintf(os.Stderr, "catalogd: %v\n", err)
		os.Exit(1) //nolint:gocritic // stop only unregisters the signals
	}
}

// setLogger sets and returns the logger of this process and its libraries.
func setLogger(cfg config) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.logLevel}
	var handler slog.Handler = slog.NewJSONHandler(os.Stderr, opts)
	if cfg.logFormat == "text" {
		handler = slog.NewTextHandler(os.Stderr, opts)
	}
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	klog.SetLogger(logr.FromSlogHandler(handler))
	logrus.SetOutput(slog.NewLogLogger(handler, slog.LevelDebug).Writer()) // operator-registry's, about legacy indexes
	return slog.New(handler)
}
