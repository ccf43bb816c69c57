package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const probeInterval = 100 * time.Millisecond

// apiServer is the address of the kube-apiserver of this run.
type apiServer struct{ url, certificate string }

// startControlPlane starts etcd and kube-apiserver on free ports and waits until the API server is ready. There are
// no controllers: nothing collects garbage or runs Pods.
func (w *world) startControlPlane(ctx context.Context) error {
	addresses, err := process.FreeAddresses(3)
	if err != nil {
		return err
	}
	etcd, peer, api := "http://"+addresses[0], "http://"+addresses[1], addresses[2]
	err = w.start("etcd", filepath.Join(w.assets, "etcd"),
		"--data-dir", w.path("etcd"),
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--unsafe-no-fsync", // data is not kept between runs
		"--log-level", "warn",
	)
	if err != nil {
		return err
	}
	if err := waitOK(ctx, etcd+"/health"); err != nil {
		return err
	}
	users, err := w.writeCredentials(api)
	if err != nil {
		return err
	}
	if err := w.startAPIServer(etcd, api, users); err != nil {
		return err
	}
	w.kubectl = kubectl{filepath.Join(w.assets, "kubectl"), w.path("kubeconfig")}
	if err := w.kubectl.writeScript(w.path("kubectl"), filepath.Join(w.root, "bin")); err != nil {
		return err
	}
	w.note("%s", w.api.url)
	return process.Every(ctx, probeInterval, func() (bool, error) {
		answer, err := w.kubectl.run(ctx, "", "get", "--raw", "/readyz")
		return err == nil && answer == "ok", nil
	})
}

func (w *world) startAPIServer(etcd, address, users string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	key := w.path("pki", "service-accounts.key")
	return w.start("kube-apiserver", filepath.Join(w.assets, "kube-apiserver"),
		"--etcd-servers", etcd,
		"--bind-address", host, "--advertise-address", host, "--secure-port", port,
		"--endpoint-reconciler-type", "none", // other reconcilers reject a loopback address
		"--cert-dir", w.path("pki"), // it creates its certificate there, for the kubeconfigs
		"--token-auth-file", users,
		"--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", w.api.url,
		"--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--disable-admission-plugins", "ServiceAccount", // a missing controller would create the required accounts
	)
}

// writeCredentials writes two kubeconfigs, each with its own token: `kubeconfig` for an administrator, and
// `catalogd.kubeconfig` for catalogd's service account with only the rights of config/rbac. It returns the token
// file for kube-apiserver.
func (w *world) writeCredentials(address string) (users string, err error) {
	w.api = apiServer{url: "https://" + address, certificate: w.path("pki", "apiserver.crt")}
	if err := os.MkdirAll(w.path("pki"), 0o700); err != nil {
		return "", err
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return "", err
	}
	if err := keyutil.WriteKey(w.path("pki", "service-accounts.key"), key); err != nil {
		return "", err
	}
	admin, catalogd := rand.Text(), rand.Text()
	account := "system:serviceaccount:" + namespace
	tokens := fmt.Sprintf("%s,admin,admin,system:masters\n%s,%s:catalogd,catalogd,\"system:serviceaccounts,%s\"\n",
		admin, catalogd, account, "system:serviceaccounts:"+namespace)
	for file, token := range map[string]string{"kubeconfig": admin, "catalogd.kubeconfig": catalogd} {
		if err := w.api.writeKubeconfig(w.path(file), token); err != nil {
			return "", err
		}
	}
	users = w.path("pki", "users.csv")
	return users, os.WriteFile(users, []byte(tokens), 0o600)
}

// writeKubeconfig writes a kubeconfig for the user with token.
func (a apiServer) writeKubeconfig(file, token string) error {
	const name = "catalogd"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: a.url, CertificateAuthority: a.certificate}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, file)
}

// waitOK waits for at most a minute until url answers 200.
func waitOK(ctx context.Context, url string) error {
	const patience = time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s did not answer 200 within %s", url, patience))
	defer cancel()
	return process.Every(ctx, probeInterval, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}
