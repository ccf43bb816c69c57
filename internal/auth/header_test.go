package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// Only a token for the audience of catalogd is valid in Catalogd-Authorization. If the header is present, no other credential counts.
func TestHeader(t *testing.T) {
	a := shared.authorizer(t, nil)
	reader, token := shared.serviceAccount(t, Audience)
	_, plain := shared.serviceAccount(t)
	_, others := shared.serviceAccount(t, "vault")
	both, forBoth := shared.serviceAccount(t, "https://kubernetes.default.svc.cluster.local", Audience)
	shared.bind(t, "header-reader", "catalogd-content-reader", reader, "/catalogs")

	allowed := answer{User: reader, Allowed: true, Reason: `RBAC: allowed by ClusterRoleBinding "header-reader"`}
	for _, test := range []struct {
		name          string
		own           []string // values of Catalogd-Authorization; nil: absent
		authorization string
		want          answer
	}{
		{name: "made for catalogd", own: []string{"Bearer " + token}, want: allowed},
		{name: "scheme in lower case", own: []string{"bearer " + token}, want: allowed},
		{name: "made for catalogd and the API server", own: []string{"Bearer " + forBoth}, want: answer{User: both}},
		{name: "made for catalogd, in Authorization", authorization: "Bearer " + token},
		{name: "made for the API server", own: []string{"Bearer " + plain}},
		{name: "made for somebody else", own: []string{"Bearer " + others}},
		{name: "expired", own: []string{"Bearer " + shared.resigned(t, token, -time.Minute)}},
		{name: "signed again, not expired", own: []string{"Bearer " + shared.resigned(t, token, time.Minute)}, want: allowed},
		{name: "empty", own: []string{""}},
		{name: "no token", own: []string{"Bearer "}},
		{name: "no scheme", own: []string{token}},
		{name: "other scheme", own: []string{"Basic " + token}},
		{name: "garbage", own: []string{"Bearer garbage"}},
		{name: "two values", own: []string{"Bearer " + token, "Bearer " + token}},
		{name: "two values, joined", own: []string{"Bearer " + token + ", Bearer " + token}},
		{name: "both headers", own: []string{"Bearer " + token}, authorization: "Bearer " + plain, want: allowed},
		{name: "both headers, swapped", own: []string{"Bearer " + plain}, authorization: "Bearer " + token},
		{name: "beside a good Authorization, empty", own: []string{""}, authorization: "Bearer " + plain},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 2 { // the second answer is cached
				r := request("/catalogs", test.authorization)
				for _, value := range test.own {
					r.Header.Add("catalogd-authorization", value)
				}
				check(t, ask(a, r), test.want)
			}
		})
	}
}

// The header wins over a client certificate, which can be that of a proxy.
func TestHeaderBesideCertificate(t *testing.T) {
	a := shared.authorizer(t, nil)
	authority := newAuthority(t)
	user, token := shared.serviceAccount(t, Audience)
	options := x509request.DefaultVerifyOptions()
	options.Roots = x509.NewCertPool()
	options.Roots.AddCert(authority.cert)
	a.authorities.current.Store(&options)
	server := serveAnswers(t, a)
	proxy := authority.client(t, "proxy")
	if got := get(t, server, "/catalogs", "", proxy); got != "proxy|false|" {
		t.Fatalf("the certificate alone: %s", got)
	}
	for _, test := range []struct{ own, want string }{{"Bearer " + token, user + "|false|"}, {"Bearer garbage", "|false|"}} {
		if got := getWith(t, server, "/catalogs", http.Header{Header: {test.own}}, proxy); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

// The headers have separate caches: a valid token of one header is reviewed again in the other.
func TestHeaderAnswersAreCachedSeparately(t *testing.T) {
	var requests *counter
	a := shared.authorizer(t, func(cfg *Config) { requests = counted(cfg) })
	user, token := shared.serviceAccount(t, Audience)
	for _, step := range []struct {
		header  string
		want    answer
		reviews map[string]int
	}{
		{Header, answer{User: user}, map[string]int{"tokenreviews": 1, "subjectaccessreviews": 1}},
		{Header, answer{User: user}, map[string]int{}},
		{"Authorization", answer{}, map[string]int{"tokenreviews": 1}},
		{"Authorization", answer{}, map[string]int{}},
		{Header, answer{User: user}, map[string]int{}},
	} {
		r := request("/catalogs", "")
		r.Header.Set(step.header, "Bearer "+token)
		check(t, ask(a, r), step.want)
		if diff := cmp.Diff(step.reviews, requests.take()); diff != "" {
			t.Errorf("requests for %s (-want +got):\n%s", step.header, diff)
		}
	}
}

// The service proxy of the API server removes Authorization and forwards Catalogd-Authorization.
func TestHeaderPassesTheServiceProxy(t *testing.T) {
	a := shared.authorizer(t, nil)
	user, token := shared.serviceAccount(t, Audience)
	proxied := shared.service(t, "default", "proxied", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		fmt.Fprintf(w, "%s %q %q", r.URL.Path, got, ask(a, r).User)
	}))
	client, err := rest.HTTPClientFor(shared.Env.Config)
	must.Succeed(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(shared.Env.Config.Host, "/")+proxied+"/catalogs", nil)
	must.Succeed(t, err)
	r.Header.Set("Authorization", "Bearer garbage") // the administrator is known by certificate
	r.Header.Set(Header, "Bearer "+token)
	response, err := client.Do(r)
	must.Succeed(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	if want := fmt.Sprintf("/catalogs %q %q", "", user); string(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

// service creates a Service for an HTTPS handler and returns its path on the API server.
func (c *cluster) service(t *testing.T, namespace, name string, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(ownAddress(t), "0"))
	must.Succeed(t, err)
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	address := listener.Addr().(*net.TCPAddr)
	port := int32(address.Port)
	path := "/api/v1/namespaces/" + namespace + "/services/https:" + name + ":443/proxy"
	_, err = c.admin.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(port)}}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Succeed(t, c.admin.CoreV1().Services(namespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	c.pod(t, namespace, name, address.IP.String())
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{address.IP.String()}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name}},
		},
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(port)}},
	}
	_, err = c.admin.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), slice, metav1.CreateOptions{})
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Succeed(t, c.admin.DiscoveryV1().EndpointSlices(namespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	eventually.Holds(t, "the API server knows the endpoint", func() bool {
		err := c.admin.CoreV1().RESTClient().Get().AbsPath(path).Do(t.Context()).Error()
		return !apierrors.IsServiceUnavailable(err)
	})
	return path
}

// pod creates a Pod at address without running it, because the API server proxies only to addresses of Pods.
func (c *cluster) pod(t *testing.T, namespace, name, address string) {
	t.Helper()
	pods := c.admin.CoreV1().Pods(namespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "none", Image: "none", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Succeed(t, pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	})
	pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
	pod.Status.PodIP = address
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must.Succeed(t, err)
}

// ownAddress returns an address of this machine that the API server accepts for endpoints; it rejects loopback addresses.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	must.Succeed(t, err)
	for _, address := range addresses {
		if prefix, ok := address.(*net.IPNet); ok && prefix.IP.To4() != nil && prefix.IP.IsGlobalUnicast() {
			return prefix.IP.String()
		}
	}
	t.Skip("this machine has no IPv4 address but that of loopback")
	return ""
}

// resigned returns a service account token as signed by the API server, but with another expiry.
func (c *cluster) resigned(t *testing.T, token string, in time.Duration) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(c.Env.ControlPlane.GetAPIServer().CertDir, "sa-signer.key"))
	must.Succeed(t, err)
	block, _ := pem.Decode(file)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	must.Succeed(t, err)
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	must.Succeed(t, err)
	claims := map[string]any{}
	must.Succeed(t, json.Unmarshal(text, &claims))
	claims["exp"] = time.Now().Add(in).Unix()
	text, err = json.Marshal(claims)
	must.Succeed(t, err)
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(text)
	sum := sha256.Sum256([]byte(signed))
	one, two, err := ecdsa.Sign(rand.Reader, key.(*ecdsa.PrivateKey), sum[:])
	must.Succeed(t, err)
	signature := append(one.FillBytes(make([]byte, 32)), two.FillBytes(make([]byte, 32))...) // ES256, RFC 7518
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
