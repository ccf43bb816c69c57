package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// versions are what `kubectl catalog version` tells.
type versions struct {
	Client clientVersion   `json:"client"`
	Server []serverVersion `json:"server,omitempty"`
	// APIVersions are those of catalogd's group that the API server has.
	APIVersions []string `json:"apiVersions,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
}

type clientVersion struct {
	GitVersion string `json:"gitVersion"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

// serverVersion is what /version of a content service says.
type serverVersion struct {
	URL         string   `json:"url"`
	GitVersion  string   `json:"gitVersion"`
	GoVersion   string   `json:"goVersion"`
	Platform    string   `json:"platform"`
	APIVersions []string `json:"apiVersions"`
}

func newVersionCmd(e *env) *cobra.Command {
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin, of catalogd and of its API",
		Example: `  kubectl catalog version
  kubectl catalog version --client`,
		Args: cobra.NoArgs,
	}
	out := newNamelessOutput(cmd)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "only that of the plugin, without asking a cluster")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versions{Client: clientVersion{e.version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}}
		var err error
		if !clientOnly {
			err = e.serverVersions(cmd.Context(), &v)
		}
		if printErr := e.printVersions(out, v); printErr != nil {
			return printErr
		}
		return err
	}
	return cmd
}

// serverVersions asks the API server and the content services. What can be had before an error is in v.
func (e *env) serverVersions(ctx context.Context, v *versions) error {
	if e.serverURL == "" {
		served, err := e.servedVersions()
		if err != nil {
			return err
		}
		if v.APIVersions = served; len(served) == 0 {
			return errors.New(noGroup)
		}
		if !slices.Contains(served, v1beta1.GroupVersion.Version) {
			v.Warnings = append(v.Warnings, fmt.Sprintf("the API server has not got %s, which the plugin uses: install the CRDs of the plugin's release", v1beta1.GroupVersion))
		}
	}
	services, err := e.services(ctx)
	if err != nil {
		return err
	}
	if len(services) == 0 {
		v.Warnings = append(v.Warnings, "no catalog is served, so there is no catalogd to ask for its version")
	}
	var failed []error
	for _, service := range services {
		server := serverVersion{URL: service.String()}
		switch err := service.JSON(ctx, "/version", nil, &server); {
		case content.IsNotFound(err):
			server.GitVersion = "of a release that does not tell its version"
			v.Warnings = append(v.Warnings, fmt.Sprintf("catalogd at %s is of an older release than the plugin: some commands need a newer one", service))
		case err != nil:
			failed = append(failed, err)
			continue
		}
		v.Server = append(v.Server, server)
		if warning := skew(e.version, server.GitVersion); warning != "" {
			v.Warnings = append(v.Warnings, warning)
		}
	}
	return errors.Join(failed...)
}

// servedVersions are the versions of catalogd's API that the API server has.
func (e *env) servedVersions() ([]string, error) {
	config, err := e.config()
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := client.ServerGroups()
	if err != nil {
		return nil, err
	}
	var served []string
	for _, group := range groups.Groups {
		if group.Name == v1beta1.GroupVersion.Group {
			for _, version := range group.Versions {
				served = append(served, version.Version)
			}
		}
	}
	return served, nil
}

// skew is a warning where plugin and catalogd are more than a minor release apart, as Kubernetes counts it; builds between releases are not
// compared.
func skew(client, server string) string {
	c, errC := semver.Parse(strings.TrimPrefix(client, "v"))
	s, errS := semver.Parse(strings.TrimPrefix(server, "v"))
	if errC != nil || errS != nil || (c.Major == s.Major && max(c.Minor, s.Minor)-min(c.Minor, s.Minor) <= 1) {
		return ""
	}
	return fmt.Sprintf("the plugin is of release %s and catalogd of %s: use releases that are at most one minor version apart", client, server)
}

func (e *env) printVersions(out *output, v versions) error {
	for _, warning := range v.Warnings {
		e.warn("%s", term.Line(warning))
	}
	if !out.isTable() {
		object, err := view("Version", "", v)
		if err != nil {
			return err
		}
		return out.print(e.stdout, nil, []row{{object: object}}, true)
	}
	p := printer{Terminal: e.stdout}
	p.printf("Client: %s (%s, %s)\n", v.Client.GitVersion, v.Client.Platform, v.Client.GoVersion)
	for _, s := range v.Server {
		built := ""
		if s.GoVersion != "" {
			built = fmt.Sprintf(" (%s, %s)", s.Platform, s.GoVersion)
		}
		p.printf("Server: %s at %s\n", term.Line(s.GitVersion+built), s.URL)
	}
	for _, version := range v.APIVersions {
		p.printf("API:    %s/%s\n", v1beta1.GroupVersion.Group, version)
	}
	return p.err
}
