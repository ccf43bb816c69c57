package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

const (
	sampleCatalog  = "config/samples/catalog/configs"
	sampleRegistry = "127.0.0.1:5005" // as config/samples name it
	sampleImage    = "catalogd/sample:latest"
	namespace      = "catalogd-system"
)

// config is the configuration from the environment.
type config struct {
	root    string   // of the repository, absolute: the working directory
	dir     string   // all state of this run
	catalog string   // the directory that is pushed as the sample's image
	args    []string // for catalogd, after its own
	ports   ports
}

// configure reads CATALOG, ARGS and the port variables from the environment.
func configure(getenv func(string) string) (config, error) {
	root, err := os.Getwd()
	if err != nil {
		return config{}, err
	}
	if _, err := os.Stat(filepath.Join(root, "hack", "controlplane", "build.sh")); err != nil {
		return config{}, errors.New("the working directory must be the root of the repository, where `make run` works")
	}
	cfg := config{root: root, dir: filepath.Join(root, ".run"), catalog: getenv("CATALOG"), args: strings.Fields(getenv("ARGS"))}
	if cfg.catalog == "" {
		cfg.catalog = sampleCatalog
	}
	info, err := os.Stat(cfg.catalog)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: cfg.catalog, Err: errors.New("not a directory")}
	}
	if err != nil {
		return config{}, fmt.Errorf("CATALOG must name a directory with a file-based catalog: %w", err)
	}
	cfg.ports, err = readPorts(getenv)
	return cfg, err
}

// content returns the external URL of catalogd's content service, and the certificate file to trust if catalogd's
// arguments name one. It ignores invalid arguments, which catalogd reports.
func (c config) content() (url, certificate string) {
	f := pflag.NewFlagSet("catalogd", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.Usage = func() {}
	f.StringVar(&url, "external-url", "", "")
	f.StringVar(&certificate, "tls-cert-file", "", "")
	_ = f.Parse(c.args)
	switch {
	case url != "":
		url = strings.TrimSuffix(url, "/")
	case certificate != "":
		url = "https://" + c.ports.content.address()
	default:
		url = c.ports.content.url()
	}
	return url, certificate
}

// path joins elements to the directory of this run.
func (c config) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// image returns the reference of the pushed catalog.
func (c config) image() string { return c.ports.registry.address() + "/" + sampleImage }
