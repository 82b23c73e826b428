// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// AuthParams has everything that a client of a provider's API server needs, except its private key.
type AuthParams struct {
	// CA is the provider's certificate authority, PEM.
	CA []byte `json:"ca,omitempty"`
	// SignedCRT is the client certificate, PEM.
	SignedCRT []byte `json:"signedCRT,omitempty"`
	// APIServer is the URL of the provider's API server.
	APIServer string `json:"apiServer,omitempty"`
	// ProxyURL is the address of a proxy of the API server.
	ProxyURL *string `json:"proxyURL,omitempty"`
	// AwsConfig replaces the certificate on EKS.
	AwsConfig *AwsConfig `json:"awsConfig,omitempty"`
}

// AwsConfig is an IAM user and the coordinates of its EKS cluster.
type AwsConfig struct {
	// AwsUserArn names the IAM user.
	AwsUserArn string `json:"awsUserArn"`
	// AwsAccessKeyID is the public part of the user's access key.
	AwsAccessKeyID string `json:"awsAccessKeyID"`
	// AwsSecretAccessKey is the secret part.
	AwsSecretAccessKey string `json:"awsSecretAccessKey"`
	// AwsRegion is where the cluster is.
	AwsRegion string `json:"awsRegion"`
	// AwsClusterName is the name of the cluster in EKS.
	AwsClusterName string `json:"awsClusterName"`
}
