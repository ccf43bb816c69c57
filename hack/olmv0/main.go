// Command olmv0 runs what OLM v0's packageserver runs, without its API server, which works in a pod only: it reads all
// CatalogSources of OLM v0. It answers each line "NAMESPACE CATALOG" of the standard input with a line of JSON, the
// PackageManifests of a catalog that are there at that time.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/operator-framework/operator-lifecycle-manager/pkg/api/client"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/queueinformer"
	operators "github.com/operator-framework/operator-lifecycle-manager/pkg/package-server/apis/operators"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/package-server/provider"
	"k8s.io/apimachinery/pkg/labels"
)

func main() {
	if err := run(context.Background(), os.Getenv("KUBECONFIG")); err != nil {
		fmt.Fprintln(os.Stderr, "olmv0:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	api, err := client.NewClient(kubeconfig)
	if err != nil {
		return err
	}
	operator, err := queueinformer.NewOperator(api.Discovery())
	if err != nil {
		return err
	}
	packages, err := provider.NewRegistryProvider(ctx, api, operator, 12*time.Hour, "olm") // as packageserver does by default
	if err != nil {
		return err
	}
	packages.Run(ctx)
	<-packages.Ready()
	for questions := bufio.NewScanner(os.Stdin); questions.Scan(); {
		namespace, catalog, _ := strings.Cut(questions.Text(), " ")
		found, err := of(packages, namespace, catalog)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
			return err
		}
	}
	return nil
}

// of returns the PackageManifests of a catalog, by name.
func of(packages *provider.RegistryProvider, namespace, catalog string) ([]operators.PackageManifest, error) {
	all, err := packages.List(namespace, labels.Everything())
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(all.Items, func(p operators.PackageManifest) bool { return p.Status.CatalogSource != catalog })
	slices.SortFunc(found, func(a, b operators.PackageManifest) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
