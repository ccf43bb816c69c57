package certificate

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// rewatch is how long until files are watched again that could not be.
const rewatch = 5 * time.Second

// Files is a certificate with its chain, and its key, in two PEM files. They are read again when they change, by symbolic
// links too, as Kubernetes mounts Secrets, and every 10 s in any case. A pair that cannot be used is logged, and the one
// before it kept.
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

// Run follows the files until ctx ends, and then returns nil.
func (f *Files) Run(ctx context.Context) error {
	for {
		err := f.watcher.Start(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.logger.Error("the serving certificate cannot be watched; watching again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rewatch):
		}
		if err := f.watcher.ReadCertificate(); err != nil {
			f.logger.Error("reading the serving certificate; the one before is kept", "error", err)
		}
	}
}

// GetCertificate returns the pair that was read last, for tls.Config.
func (f *Files) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.watcher.GetCertificate(hello)
}
