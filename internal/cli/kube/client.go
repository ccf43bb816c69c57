// Package kube reads and writes objects of the API server, for the plugin.
//
// The clients of controller-runtime and of client-go's discovery link the types of all API groups, and register them when a program
// starts. The plugin needs few of them: see docs/design/025-a-light-plugin.md.
package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// An Object is an object of the API server: a pointer to a type of the client's scheme, to an Unstructured or to a
// PartialObjectMetadata. The latter two have their apiVersion and kind set.
type Object interface {
	metav1.Object
	runtime.Object
}

// A List is a list of objects, of a type as for Object.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// A Client sends requests to the API server. Its errors are those of package k8s.io/apimachinery/pkg/api/errors.
type Client struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
}

// New returns a client. The scheme has the types of objects.
func New(config *rest.Config, scheme *runtime.Scheme) (*Client, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion() // for watches and errors
	config.ContentType = runtime.ContentTypeJSON
	httpClient, err := rest.HTTPClientFor(config)
	return &Client{config, httpClient, scheme}, err
}

// Get reads an object, and replaces into with it.
func (c *Client) Get(ctx context.Context, key types.NamespacedName, into Object) error {
	request, err := c.request(http.MethodGet, key.Namespace, into)
	if err != nil {
		return err
	}
	return do(ctx, request.Name(key.Name), into)
}

// List reads the objects of a namespace, or of all if it is empty, and replaces into with them.
func (c *Client) List(ctx context.Context, namespace string, into List, opts metav1.ListOptions) error {
	request, err := c.request(http.MethodGet, namespace, into)
	if err != nil {
		return err
	}
	return do(ctx, with(request, &opts), into)
}

// Watch sends the changes of the objects of which list is a list, all in the scheme.
func (c *Client) Watch(ctx context.Context, namespace string, list List, opts metav1.ListOptions) (watch.Interface, error) {
	request, err := c.request(http.MethodGet, namespace, list)
	if err != nil {
		return nil, err
	}
	opts.Watch = true
	return with(request, &opts).Watch(ctx)
}

// Create creates an object, and replaces it with the API server's.
func (c *Client) Create(ctx context.Context, object Object, opts metav1.CreateOptions) error {
	return c.create(ctx, object, object, &opts)
}

// CreateToken creates a token of a ServiceAccount, and replaces the request with the API server's.
func (c *Client) CreateToken(ctx context.Context, account, request Object) error {
	return c.create(ctx, account, request, &metav1.CreateOptions{}, account.GetName(), "token")
}

// create sends an object to the path of another's collection and further segments.
func (c *Client) create(ctx context.Context, of, object Object, opts *metav1.CreateOptions, path ...string) error {
	request, err := c.request(http.MethodPost, of.GetNamespace(), of)
	if err != nil {
		return err
	}
	body, err := c.encode(object)
	if err != nil {
		return err
	}
	return do(ctx, with(request.Suffix(path...), opts).Body(body), object)
}

// Patch applies a merge patch (RFC 7386) to an object, and replaces it with the API server's.
func (c *Client) Patch(ctx context.Context, object Object, patch []byte, opts metav1.PatchOptions) error {
	request, err := c.request(http.MethodPatch, object.GetNamespace(), object)
	if err != nil {
		return err
	}
	request.SetHeader("Content-Type", string(types.MergePatchType))
	return do(ctx, with(request.Name(object.GetName()), &opts).Body(patch), object)
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, object Object, opts metav1.DeleteOptions) error {
	request, err := c.request(http.MethodDelete, object.GetNamespace(), object)
	if err != nil {
		return err
	}
	return remove(ctx, request.Name(object.GetName()), opts)
}

// DeleteAll deletes the selected objects of a namespace that are of the object's type.
func (c *Client) DeleteAll(ctx context.Context, namespace string, object Object, selected metav1.ListOptions) error {
	request, err := c.request(http.MethodDelete, namespace, object)
	if err != nil {
		return err
	}
	return remove(ctx, with(request, &selected), metav1.DeleteOptions{})
}

// Versions returns the versions of an API group that the API server has. The error is not found for an unknown group.
func (c *Client) Versions(ctx context.Context, group string) ([]string, error) {
	client, err := c.client(schema.GroupVersion{Group: group, Version: "v1"})
	if err != nil {
		return nil, err
	}
	var found metav1.APIGroup
	if err := do(ctx, client.Get().AbsPath("/apis", group), &found); err != nil {
		return nil, err
	}
	var versions []string
	for _, v := range found.Versions {
		versions = append(versions, v.Version)
	}
	return versions, nil
}

// request returns a request for the collection of an object's or a list's type.
func (c *Client) request(verb, namespace string, object runtime.Object) (*rest.Request, error) {
	kind, err := c.kindOf(object)
	if err != nil {
		return nil, err
	}
	client, err := c.client(kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	request := client.Verb(verb).NamespaceIfScoped(namespace, namespace != "").Resource(resource.Resource)
	request.SetHeader("Content-Type", runtime.ContentTypeJSON)
	switch object.(type) {
	case *metav1.PartialObjectMetadata:
		request.SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	case *metav1.PartialObjectMetadataList:
		request.SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	}
	return request, nil
}

func (c *Client) client(version schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("creating a client of the API server: %w", err)
	}
	return client, nil
}

// kindOf returns the kind of an object, or of the objects of a list.
func (c *Client) kindOf(object runtime.Object) (schema.GroupVersionKind, error) {
	kind := object.GetObjectKind().GroupVersionKind()
	if kind.Empty() {
		kinds, _, err := c.scheme.ObjectKinds(object)
		if err != nil {
			return kind, err
		}
		kind = kinds[0]
	}
	if _, isList := object.(List); isList {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	return kind, nil
}

// encode returns an object as JSON, with its kind.
func (c *Client) encode(object Object) ([]byte, error) {
	kind, err := c.kindOf(object)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	return json.Marshal(object)
}

// with adds options to the query of a request.
func with(request *rest.Request, opts runtime.Object) *rest.Request {
	return request.SpecificallyVersionedParams(opts, metav1.ParameterCodec, metav1.Unversioned)
}

// do sends a request, and replaces into with the response.
func do(ctx context.Context, request *rest.Request, into any) error {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	text, _ := result.Raw()
	reflect.ValueOf(into).Elem().SetZero() // fields that are absent in the response must not stay
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decoding the API server's response for %s: %w", request.URL().Path, err)
	}
	return nil
}

func remove(ctx context.Context, request *rest.Request, opts metav1.DeleteOptions) error {
	opts.Kind, opts.APIVersion = "DeleteOptions", metav1.Unversioned.String()
	body, err := json.Marshal(opts)
	if err != nil {
		return err
	}
	return request.Body(body).Do(ctx).Error()
}
