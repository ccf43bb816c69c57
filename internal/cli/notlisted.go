package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// notListed is the error of a name that is not in the list.
func (e *env) notListed(ctx context.Context, k kind, opts getOptions, name string) error {
	opts.names = nil
	if k.ofPackages {
		if err := e.ifLeftOut(ctx, name, opts.catalog); err != nil {
			return err
		}
	}
	var names []string
	if !k.narrow || opts.pkg != "" {
		all, err := e.find(ctx, k, opts)
		if err != nil {
			return err
		}
		if len(all) == 0 && opts.pkg != "" {
			if err := e.mustHavePackage(ctx, opts); err != nil {
				return err
			}
		}
		for _, l := range all {
			names = append(names, l.name)
		}
	}
	hint := ""
	if k.ofPackages {
		hint = e.packageHint(ctx, name, names)
	} else {
		near := didYouMean
		if opts.pkg != "" {
			near = orListed
		}
		instead := "kubectl catalog get " + k.names[0]
		hint = cmp.Or(e.orPackage(ctx, name, instead+" -p "+name), e.orCatalog(ctx, name, instead+" -c "+name), near(name, names))
	}
	return notFoundf("there is no %s %q%s%s", k.names[1], name, opts.where(), hint)
}

// nothingListed ends a list that is empty. That is an error only if what was to be searched does not exist.
func (e *env) nothingListed(ctx context.Context, out *output, k kind, opts getOptions) error {
	if err := e.mustHavePackage(ctx, opts); err != nil {
		return err
	}
	if opts.channel != "" && opts.pkg != "" {
		channels := opts
		channels.names = []string{opts.channel}
		found, err := e.find(ctx, channelKind, channels)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			channels.channel = ""
			return e.notListed(ctx, channelKind, channels, opts.channel)
		}
	}
	if !out.isTable() {
		return out.print(e.stdout, k.columns, nil, false)
	}
	text := fmt.Sprintf("There are no %s%s.", k.names[0], opts.where())
	if strings.Contains(opts.selector, v1beta1.ProviderLabel) {
		text += " Most providers are no labels, as their names cannot be: kubectl catalog get packages -o wide shows them all."
	}
	if strings.Contains(opts.fields, "metadata.name") {
		text += " metadata.name is PACKAGE.CATALOG; the name of the package alone is spec.packageName."
	}
	return e.nothingFound(ctx, text)
}

// mustHavePackage returns an error if there is no such package as --package names.
func (e *env) mustHavePackage(ctx context.Context, opts getOptions) error {
	if opts.pkg == "" {
		return nil
	}
	found, err := e.find(ctx, packageKind, getOptions{catalog: opts.catalog, names: []string{opts.pkg}})
	if err != nil || len(found) > 0 {
		return err
	}
	return e.noPackage(ctx, opts.pkg, opts.catalog)
}
