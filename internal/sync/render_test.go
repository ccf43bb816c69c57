package sync

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

const templateTag = ":v{kube_major_version}.{kube_minor_version}"

// An upgrade of the cluster switches the image without a change of the CatalogSource.
func TestTemplateFollowsCluster(t *testing.T) {
	w := newWorld(t)
	version := "v1.36.4"
	w.Config.ServerVersion = func(context.Context) (*apiversion.Info, error) { return &apiversion.Info{GitVersion: version}, nil }
	_, first := w.registry.push("v1.36", catalogOf(pkg{name: "foo"}))
	ref, second := w.registry.push("v1.37", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	repository, _, _ := strings.Cut(ref, ":v1.37")
	w.create("", func(c *v1beta1.CatalogSource) { c.Spec.ImageTemplate = repository + templateTag })
	c := w.settle()
	if w.servedDigest() != first || c.Status.Image != repository+":v1.36" {
		t.Fatalf("serves %s of %s", w.servedDigest(), c.Status.Image)
	}
	wantCondition(t, c, "TemplatesHaveResolved", "True AllTemplatesResolved: The image is "+repository+":v1.36.")

	version = "v1.37.0+abc"
	for at := time.Duration(0); w.servedDigest() != second; {
		next := w.reconcile()
		if at += next; next == 0 || at > 10*time.Minute {
			t.Fatalf("%v after the upgrade %s is served, and the next pass is in %v", at-next, c.Status.Image, next)
		}
		w.clock.SetTime(start.Add(at))
	}
	c = w.source()
	wantCondition(t, c, "TemplatesHaveResolved", "True AllTemplatesResolved: The image is "+repository+":v1.37.")
	wantCondition(t, c, "Ready", "True Succeeded: 1 package is published.")
	if c.Status.Image != repository+":v1.37" || c.Spec.Image != "" {
		t.Errorf("status.image is %q, spec.image %q", c.Status.Image, c.Spec.Image)
	}
	w.registry.take()
	w.requests.take()
	w.reconcile()
	wantEqual(t, "requests of a pass with nothing to do", nil, w.registry.take())
	wantEqual(t, "writes of it", nil, w.requests.take())
}

// A template that cannot be resolved blocks polls. The content stays served, and polls continue once it can.
func TestTemplateUnresolved(t *testing.T) {
	w := newWorld(t)
	version, failed := "v1.37.1", error(nil)
	w.Config.ServerVersion = func(context.Context) (*apiversion.Info, error) { return &apiversion.Info{GitVersion: version}, failed }
	ref, digest := w.registry.push("v1.37", catalogOf(pkg{name: "foo"}))
	w.create("", func(c *v1beta1.CatalogSource) { c.Spec.ImageTemplate = strings.Replace(ref, ":v1.37", templateTag, 1) })
	w.settle()

	failed = errors.New("the API server is being upgraded")
	w.clock.SetTime(start.Add(8 * time.Minute)) // the version is to be read again
	w.reconcile()
	wantCondition(t, w.source(), "Ready", "True Succeeded: 1 package is published.") // one that fails is nothing yet
	w.clock.SetTime(start.Add(time.Hour))
	next := w.reconcile()
	const message = `Cannot construct catalog image reference, variables "kube_major_version", "kube_minor_version" couldn't be resolved`
	const told = message + ", as the API server's version cannot be read. The previous content is still served."
	c := w.source()
	wantCondition(t, c, "TemplatesHaveResolved", "False UnableToResolve: "+message)
	wantCondition(t, c, "Progressing", "True Retrying: "+told)
	wantCondition(t, c, "Ready", "False UnableToResolve: "+told)
	wantCondition(t, c, "Serving", "True Available: Serving the content of "+digest+".")
	wantEqual(t, "requests to the registry", nil, w.registry.take())
	if len(w.packages()) != 1 || next == 0 || next > time.Minute {
		t.Errorf("packages %v, next pass in %v", w.packages(), next)
	}
	w.requests.take()
	w.clock.SetTime(start.Add(time.Hour + next))
	w.reconcile()
	wantEqual(t, "writes while nothing changes", nil, w.requests.take())
	wantCondition(t, w.source(), "Ready", "False UnableToResolve: "+told)

	version, failed = "1", nil // an API server that tells no minor version: only a person can do something
	w.clock.SetTime(start.Add(90 * time.Minute))
	w.reconcile()
	const half = `Cannot construct catalog image reference, variable "kube_minor_version" couldn't be resolved`
	wantCondition(t, w.source(), "TemplatesHaveResolved", "False UnableToResolve: "+half)
	wantCondition(t, w.source(), "Progressing", "False Blocked: "+half+". The previous content is still served.")

	version = "v1.37.1"
	w.clock.SetTime(start.Add(2 * time.Hour))
	w.reconcile()
	c = w.source()
	wantCondition(t, c, "TemplatesHaveResolved", "True AllTemplatesResolved: The image is "+ref+".")
	wantCondition(t, c, "Ready", "True Succeeded: 1 package is published.")
}

// The annotation of OLM v0 applies if the field is not set; without both, the condition is removed.
func TestTemplateAnnotation(t *testing.T) {
	w := newWorld(t)
	ref, tagged := w.registry.push("v1.37", catalogOf(pkg{name: "foo"}))
	other, latest := w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	template := strings.Replace(ref, ":v1.37", templateTag, 1)
	w.create(other, func(c *v1beta1.CatalogSource) {
		c.Annotations = map[string]string{v1beta1.ImageTemplateAnnotation: template}
	})
	c := w.settle()
	if w.servedDigest() != tagged || c.Status.Image != ref {
		t.Errorf("serves %s of %s, want %s", w.servedDigest(), c.Status.Image, ref)
	}
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.ImageTemplate = strings.Replace(template, "v{", "{", 1) })
	w.reconcile()
	wantCondition(t, w.source(), "TemplatesHaveResolved", "True AllTemplatesResolved: The image is "+strings.Replace(ref, ":v", ":", 1)+".")
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.ImageTemplate, c.Annotations = "", nil })
	w.reconcile()
	c = w.source()
	if _, ok := conditions(c)["TemplatesHaveResolved"]; ok || c.Status.Image != other || w.servedDigest() != latest {
		t.Errorf("conditions %v, serves %s of %s", conditions(c), w.servedDigest(), c.Status.Image)
	}
}
