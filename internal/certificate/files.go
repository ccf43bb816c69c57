package certificate

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// rewatch is the delay before a failed watch is retried.
const rewatch = 5 * time.Second

// Files is a certificate chain and its key in two PEM files. They are reloaded when they change, also through symbolic links
// as in mounted Secrets, and every 10 s. An invalid pair is logged, and the previous one stays in use.
type Files struct {
	watcher *certwatcher.CertWatcher
	logger  *slog.Logger
}

// NewFiles reads the two files. An error names them.
func NewFiles(cert, key string, logger *slog.Logger) (*Files, error) {
	watcher, err := certwatcher.New(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate %s and its key %s: %w", cert, key, err)
	}
	watcher.RegisterCallback(func(pair tls.Certificate) {
		logger.Info("serving certificate read", "file", cert, "names", pair.Leaf.DNSNames, "notAfter", pair.Leaf.NotAfter)
	})
	return &Files{watcher: watcher, logger: logger.With("cert", cert, "key", key)}, nil
}

// Run watches the files until ctx ends. It then returns nil.
func (f *Files) Run(ctx context.Context) error {
	for {
		err := f.watcher.Start(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.logger.Error("watching the serving certificate failed; retrying", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rewatch):
		}
		if err := f.watcher.ReadCertificate(); err != nil {
			f.logger.Error("reading the serving certificate failed; the previous one stays in use", "error", err)
		}
	}
}

// GetCertificate returns the current pair, for tls.Config.
func (f *Files) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.watcher.GetCertificate(hello)
}
