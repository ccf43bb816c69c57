package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/template"
)

// next is the final report of `make run`. Each command works as printed, in the root of the repository.
var next = template.Must(template.New("next").Parse(`
Try next, in another terminal in {{.Root}}:

1. The catalogs and their state (.run/kubectl is kubectl with the kubeconfig set)
   .run/kubectl get catalogsources -o wide

2. The catalogs of the content service
   {{.Curl}} {{.Content}}/catalogs

3. The channels of one package, as JSON lines
   {{.Curl}} '{{.Content}}/catalogs/{{.Catalog}}/api/v1/metas?schema=olm.channel&package={{.Package}}'

4. The channels of that package with the head of each, by GraphQL (docs/api.md has more)
   {{.Curl}} -G {{.Content}}/api/v1/graphql --data-urlencode 'query={package(name: "{{.Package}}") {channels {name head {name version}}}}'

5. A catalog of your own: push a directory (here one package of the sample), and add the image
   .run/kubectl catalog push {{.Own}} {{.Mine}} && .run/kubectl catalog add mine {{.Mine}} --wait

6. Poll for a new image now
   .run/kubectl annotate --overwrite catalogsource {{.Catalog}} catalogd.operatorframework.io/poll-requested="$(date)"

7. The same image as a ClusterCatalog of OLM v1
   .run/kubectl apply -f {{.ClusterCatalog}} && .run/kubectl get clustercatalogs --watch

8. The packages as OLM v0 asks for them; the authority names the catalog (docs/spec/olmv0.md)
   grpcurl -plaintext -authority {{.Catalog}} {{.GRPC}} api.Registry/ListPackages

Your own kubectl works as well: export KUBECONFIG={{.Kubeconfig}}
Logs: {{.Logs}}

catalogd is ready: {{.Content}} serves {{.Catalogs}}; Ctrl-C stops everything

Open in a browser: {{.Content}}/ui/
`))

// head shortens the table of a large catalog.
func head(table string) string {
	const most = 12 // one line is the heading
	lines := strings.SplitAfter(table, "\n")
	if len(lines) <= most+1 {
		return table
	}
	return strings.Join(lines[:most], "") + fmt.Sprintf("... and %d more\n", len(lines)-1-most)
}

// report prints the packages and the next commands to try.
func (w *world) report(ctx context.Context) error {
	table, err := w.kubectl.run(ctx, "", "get", "operatorpackages")
	if err != nil {
		return err
	}
	fmt.Fprintf(w.out, "\n%s", head(table))
	packages, err := w.kubectl.run(ctx, "", "get", "operatorpackages", "-l", "catalog="+w.catalogs[0],
		"-o", `jsonpath={range .items[*]}{.spec.packageName}{"\n"}{end}`)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(packages, "\n") // a catalog may have none; the command still works
	content, certificate := w.content()
	curl := "curl -s"
	if certificate != "" {
		curl += " --cacert " + certificate
	}
	clusterCatalog, err := w.sample("config/samples/olm-v1/clustercatalog.yaml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.path("clustercatalog.yaml"), []byte(clusterCatalog), 0o600); err != nil {
		return err
	}
	return next.Execute(w.out, map[string]string{
		"ClusterCatalog": w.path("clustercatalog.yaml"),
		"GRPC":           w.ports.grpc.address(),
		"Root":           w.root,
		"Content":        content,
		"Curl":           curl,
		"Mine":           w.ports.registry.address() + "/catalogd/mine:latest",
		"Catalog":        w.catalogs[0],
		"Catalogs":       strings.Join(w.catalogs, ", "),
		"Package":        first,
		"Own":            sampleCatalog + "/skupper-operator",
		"Kubeconfig":     w.path("kubeconfig"),
		"Logs":           w.path("*.log"),
	})
}
