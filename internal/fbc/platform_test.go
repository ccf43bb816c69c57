package fbc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
)

func TestFeatures(t *testing.T) {
	const newer = "features.operators.openshift.io/"
	for name, c := range map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"none": {nil, nil},
		"older list": {map[string]string{oldFeatures: `["Disconnected","proxy", "FIPS Mode","csi","Proxy-aware"]`},
			[]string{"csi", "disconnected", "fips-compliant", "proxy-aware"}},
		"older list without quotes": {map[string]string{oldFeatures: `[fips, SNO]`}, []string{"fips-compliant", "sno"}},
		"older list of no JSON":     {map[string]string{oldFeatures: `{}"`}, nil},
		"newer": {map[string]string{newer + "disconnected": "true", newer + "cnf": "false", newer + "tls-profiles": " True",
			newer + "token-auth-aws": "true"}, []string{"disconnected", "tls-profiles", "token-auth-aws"}},
		"curly quotes": {map[string]string{newer + "fips-compliant": "“true”", newer + "csi": "“false”"}, []string{"fips-compliant"}},
		"newer overrides older": {map[string]string{oldFeatures: `["fips","proxy"]`, newer + "fips-compliant": "false",
			newer + "csi": "true"}, []string{"csi", "proxy-aware"}},
		"unknown features": {map[string]string{oldFeatures: `["SGX","","--"]`, newer + "Quantum-Safe": "true", newer: "true"},
			[]string{"quantum-safe", "sgx"}},
	} {
		if diff := cmp.Diff(c.want, features(c.annotations)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	for spelling, name := range featureNames {
		if featureName(name) != name {
			t.Errorf("%q means %q, which is not a name of its own", spelling, name)
		}
	}
}

func TestPlatforms(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		want   []string
	}{
		"no labels":        {nil, []string{"amd64"}},
		"other labels":     {map[string]string{osLabels + "zos": "supported", "arch.arm64": "supported"}, []string{"amd64"}},
		"several":          {map[string]string{archLabels + "s390x": "supported", archLabels + "arm64": "supported"}, []string{"arm64", "s390x"}},
		"some unsupported": {map[string]string{archLabels + "s390x": "unsupported", archLabels + "arm64": "supported"}, []string{"arm64"}},
		"all unsupported":  {map[string]string{archLabels + "s390x": "unsupported"}, nil},
	} {
		if diff := cmp.Diff(c.want, platforms(c.labels, archLabels, "amd64")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	modes := []v1alpha1.InstallMode{{Type: "OwnNamespace", Supported: true}, {Type: "MultiNamespace"}, {Type: "AllNamespaces", Supported: true}}
	if diff := cmp.Diff([]string{"AllNamespaces", "OwnNamespace"}, installModes(modes)); diff != "" {
		t.Errorf("install modes: -want +got:\n%s", diff)
	}
}
