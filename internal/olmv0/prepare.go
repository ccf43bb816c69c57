package olmv0

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"google.golang.org/protobuf/proto"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// MaxMessage is the size in bytes of the largest message that a client of gRPC accepts by default.
const MaxMessage = 4 << 20

// growth is by how much the message of GetBundle may exceed the blob of a bundle and the icon of its package: it has them once
// in properties, and twice in ClusterServiceVersions, where JSON escapes a byte by six.
const growth = 1 + 2*6

// writeFile converts the valid packages of a snapshot. One that cannot be converted is left out. Memory holds one bundle, and
// the names of all entries. Messages larger than limit, in bytes, do not reach clients.
func writeFile(ctx context.Context, snap *store.Snapshot, limit int, out io.Writer) error {
	buffered := bufio.NewWriterSize(out, 256<<10)
	w := &fileWriter{out: buffered, limit: limit}
	for _, p := range snap.Packages() {
		if err := ctx.Err(); err != nil {
			return err
		}
		fault, err := writePackage(ctx, snap, p.Name, w)
		if err != nil {
			return err
		}
		w.end(p.Name, fault)
	}
	if err := w.close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// writePackage returns, as fault, why a package cannot be converted.
func writePackage(ctx context.Context, snap *store.Snapshot, pkg string, w *fileWriter) (fault, err error) {
	defer func() {
		if r := recover(); r != nil { // one package must not end the process at each start
			fault = fmt.Errorf("converting it failed: %v", r)
		}
	}()
	f, err := readFrame(ctx, snap, pkg)
	if err != nil {
		return nil, err
	}
	limit, start, members := maxMessages(snap.Package(pkg).Size()), w.offset, f.members()
	for blob, err := range snap.Select(store.Query{Schema: fbc.SchemaBundle, Package: pkg}).Verified(ctx) {
		if err != nil {
			return nil, err
		}
		listed, err := loadListed(blob)
		if err != nil {
			return fmt.Errorf("bundle %q: %w", listed.Name, err), nil
		}
		large := 0
		for _, m := range members[listed.Name] {
			message, err := f.convert(listed, m.channel, m.entry)
			if err != nil {
				return fmt.Errorf("bundle %q: %w", listed.Name, err), nil
			}
			if size := proto.Size(message); size > w.limit {
				large = size // a client would end at this message, and get none of the others
			} else if err := w.add(message); err != nil {
				return nil, err
			}
			if w.offset-start > limit {
				return fmt.Errorf("its bundles, in all channels together, take more than %d bytes", limit), nil
			}
			if large == 0 && growth*(len(blob)+f.iconSize()) > w.limit {
				if large, err = f.fullSize(blob, m.channel, m.entry); err != nil {
					return fmt.Errorf("bundle %q: %w", listed.Name, err), nil
				}
			}
		}
		if large > w.limit {
			w.report.Large = append(w.report.Large, Large{Package: pkg, Bundle: listed.Name, Bytes: large})
		}
	}
	return nil, nil
}

// maxMessages returns the limit of the messages of a package in bytes. A small package could otherwise fill the volume, with one
// large bundle in many channels. In the community catalog, messages take 0.8 times the size of their package at most.
func maxMessages(packageSize int64) uint64 { return 16*uint64(packageSize) + 1<<20 }

func (f *frame) iconSize() int {
	if f.pkg.Icon == nil {
		return 0
	}
	return len(f.pkg.Icon.Data)
}

// fullSize returns the size of the message of GetBundle.
func (f *frame) fullSize(blob []byte, ch *declcfg.Channel, entry *declcfg.ChannelEntry) (int, error) {
	b, err := loadBundle(blob)
	if err != nil {
		return 0, err
	}
	message, err := f.convert(b, ch, entry)
	if err != nil {
		return 0, err
	}
	return proto.Size(message), nil
}
