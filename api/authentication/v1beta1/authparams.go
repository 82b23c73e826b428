// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// AuthParams is what a client needs to act on a provider's API server, its private key excepted.
type AuthParams struct {
	// CA is the provider's certificate authority, PEM.
	CA []byte `json:"ca,omitempty"`
	// SignedCRT is the client certificate, PEM.
	SignedCRT []byte `json:"signedCRT,omitempty"`
	// APIServer is the URL of the provider's API server.
	APIServer string `json:"apiServer,omitempty"`
	// ProxyURL is of a proxy on the way to it.
	ProxyURL *string `json:"proxyURL,omitempty"`
	// AwsConfig replaces the certificate on EKS.
	AwsConfig *AwsConfig `json:"awsConfig,omitempty"`
}

// AwsConfig is an IAM user and the coordinates of the EKS cluster it may enter.
type AwsConfig struct {
	// AwsUserArn names the IAM user.
	AwsUserArn string `json:"awsUserArn"`
	// AwsAccessKeyID is the public part of its access key.
	AwsAccessKeyID string `json:"awsAccessKeyID"`
	// AwsSecretAccessKey is the secret part.
	AwsSecretAccessKey string `json:"awsSecretAccessKey"`
	// AwsRegion is where the cluster is.
	AwsRegion string `json:"awsRegion"`
	// AwsClusterName is the name of the cluster in EKS.
	AwsClusterName string `json:"awsClusterName"`
}
