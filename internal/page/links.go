package page

import (
	"net/url"
	"slices"
	"strings"
)

// stateURL returns a URL of the same page with other parameters.
func stateURL(values url.Values) string {
	for name, list := range values {
		if len(list) == 0 || len(list) == 1 && list[0] == "" {
			delete(values, name)
		}
	}
	if len(values) == 0 {
		return "?"
	}
	return "?" + values.Encode()
}

// with returns the parameters with new values of one of them and without the page number.
func with(values url.Values, name string, list []string) url.Values {
	out := url.Values{}
	for key, old := range values {
		if key != "page" && key != name {
			out[key] = slices.Clone(old)
		}
	}
	if len(list) > 0 {
		out[name] = list
	}
	return out
}

// without returns the parameters without one value of a parameter.
func without(values url.Values, name, value string) url.Values {
	rest := slices.DeleteFunc(slices.Clone(values[name]), func(v string) bool { return strings.EqualFold(v, value) })
	return with(values, name, rest)
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// packageURL returns the URL of a package. An empty version means the current one.
func packageURL(root, catalog, version, pkg string) string {
	return catalogURL(root, catalog, version) + "/packages/" + url.PathEscape(pkg)
}

func catalogURL(root, catalog, version string) string {
	u := root + "catalogs/" + url.PathEscape(catalog)
	if version != "" {
		u += "/digests/" + url.PathEscape(version)
	}
	return u
}
