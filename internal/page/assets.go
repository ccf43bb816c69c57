package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

//go:embed assets
var assetFiles embed.FS

// assets has the files of the directory assets, which has no subdirectories.
var assets = func() fs.FS {
	sub, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		panic(err) // only for an invalid path
	}
	return sub
}()

// assetsVersion is the hash of all assets. It is part of their paths, so browsers can cache them forever.
var assetsVersion = func() string {
	sum := sha256.New()
	err := fs.WalkDir(assets, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(assets, path)
		sum.Write([]byte(path))
		sum.Write(content)
		return err
	})
	if err != nil {
		panic(err) // embedded files can be read
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}()

var compressedAssets = gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := fs.ReadFile(assets, name)
	if err != nil || r.PathValue("version") != assetsVersion {
		w.Header().Set("Cache-Control", "no-store")
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}))

func serveAsset(w http.ResponseWriter, r *http.Request) { compressedAssets.ServeHTTP(w, r) }
