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
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// versions are the result of the command version.
type versions struct {
	Client      clientVersion   `json:"client"`
	Server      []serverVersion `json:"server,omitempty"`
	APIVersions []string        `json:"apiVersions,omitempty"` // of catalogd's group in the API server
	Warnings    []string        `json:"warnings,omitempty"`
}

type clientVersion struct {
	GitVersion string `json:"gitVersion"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

// serverVersion is the response of a content service for /version.
type serverVersion struct {
	URL         string   `json:"url"`
	GitVersion  string   `json:"gitVersion"`
	GoVersion   string   `json:"goVersion"`
	Platform    string   `json:"platform"`
	APIVersions []string `json:"apiVersions"`
}

func newVersionCommand(s *session.Session) *cobra.Command {
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin, of catalogd and of its API",
		Example: `  kubectl catalog version
  kubectl catalog version --client`,
		Args: cobra.NoArgs,
	}
	format := output.NewUnnamedFormat(cmd)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "only the version of the plugin, without a cluster")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versions{Client: clientVersion{s.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}}
		var err error
		if !clientOnly {
			err = readVersions(cmd.Context(), s, &v)
		}
		for _, warning := range v.Warnings {
			s.Stderr.Warnf("%s", warning)
		}
		if format.IsTable() {
			return errors.Join(printVersions(s.Stdout, v), err)
		}
		return errors.Join(format.PrintObject(s.Stdout, "Version", "", v), err)
	}
	return cmd
}

// readVersions asks the API server and the content services. After an error, v has what could be read.
func readVersions(ctx context.Context, s *session.Session, v *versions) error {
	if !s.IsDirect() {
		served, err := servedVersions(ctx, s)
		if err != nil {
			return err
		}
		if v.APIVersions = served; len(served) == 0 {
			return errors.New(session.UnknownGroup)
		}
		if !slices.Contains(served, v1beta1.GroupVersion.Version) {
			v.Warnings = append(v.Warnings, fmt.Sprintf("the API server does not have %s, which the plugin uses: "+
				"install the CRDs of the plugin's release", v1beta1.GroupVersion))
		}
	}
	services, err := s.Services(ctx)
	if err != nil {
		return err
	}
	if len(services) == 0 {
		v.Warnings = append(v.Warnings, "the version of catalogd is unknown: no catalog is served")
	}
	var failed []error
	for _, service := range services {
		server := serverVersion{URL: service.String()}
		switch err := service.JSON(ctx, "/version", nil, &server); {
		case content.IsNotFound(err):
			server.GitVersion = "unknown"
			v.Warnings = append(v.Warnings, fmt.Sprintf("catalogd at %s is older than the plugin and does not support all commands",
				service))
		case err != nil:
			failed = append(failed, err)
			continue
		}
		v.Server = append(v.Server, server)
		if warning := skew(s.Version, server.GitVersion); warning != "" {
			v.Warnings = append(v.Warnings, warning)
		}
	}
	return errors.Join(failed...)
}

// servedVersions returns the versions of catalogd's API in the API server.
func servedVersions(ctx context.Context, s *session.Session) ([]string, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	served, err := c.Versions(ctx, v1beta1.GroupName)
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return served, err
}

// skew returns a warning if the plugin and catalogd are more than one minor release apart. Development builds are not compared.
func skew(client, server string) string {
	c, errC := semver.Parse(strings.TrimPrefix(client, "v"))
	s, errS := semver.Parse(strings.TrimPrefix(server, "v"))
	if errC != nil || errS != nil || (c.Major == s.Major && max(c.Minor, s.Minor)-min(c.Minor, s.Minor) <= 1) {
		return ""
	}
	return fmt.Sprintf("the plugin is release %s and catalogd is release %s: use releases at most one minor version apart", client, server)
}

func printVersions(to *output.Terminal, v versions) error {
	lines := output.Lines{Terminal: to}
	lines.Printf("Client: %s (%s, %s)\n", v.Client.GitVersion, v.Client.Platform, v.Client.GoVersion)
	for _, s := range v.Server {
		built := ""
		if s.GoVersion != "" {
			built = fmt.Sprintf(" (%s, %s)", s.Platform, s.GoVersion)
		}
		lines.Printf("Server: %s at %s\n", output.Line(s.GitVersion+built), s.URL)
	}
	for _, version := range v.APIVersions {
		lines.Printf("API:    %s/%s\n", v1beta1.GroupVersion.Group, version)
	}
	return lines.Err
}
