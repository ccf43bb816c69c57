// Command client acts as a controller in a Pod: it GETs its URL with the token of its service account, if it has
// one, and trusts the authority in /ca/ca.crt. It prints the status and the number of bytes.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"
)

const (
	tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	caFile    = "/ca/ca.crt"
)

func main() {
	if err := get(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func get(url string) error {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	switch token, err := os.ReadFile(tokenFile); {
	case err == nil:
		request.Header.Set("Authorization", "Bearer "+string(token))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	client := &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	size, err := io.Copy(io.Discard, response.Body)
	fmt.Fprintf(os.Stdout, "%d, %d bytes\n", response.StatusCode, size)
	return err
}
