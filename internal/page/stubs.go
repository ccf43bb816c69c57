package page

func loadComparison(*request) (any, error)       { return nil, nil }
func loadBundleComparison(*request) (any, error) { return nil, nil }
