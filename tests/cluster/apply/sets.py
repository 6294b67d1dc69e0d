"""Sets of objects for the tests. NAMESPACE is replaced by the test's own, so that cluster-scoped names do not meet."""

from __future__ import annotations

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: config, labels: {app: x}}
data: {A: "1", B: "2"}
"""

SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {password: hunter2}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, labels: {app: manager}}
spec:
  replicas: 1
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec:
      serviceAccountName: manager
      terminationGracePeriodSeconds: 0
      containers:
      - name: manager
        image: registry.example.org/manager:1
        args: [--zap-log-level=info]
        env:
        - {name: FIRST, value: "1"}
        ports: [{containerPort: 8080, name: metrics}]
        resources:
          limits: {cpu: 1000m, memory: 1024Mi}
          requests: {cpu: 0.01, memory: 64Mi}
        volumeMounts: [{name: cert, mountPath: /cert, readOnly: true}]
      volumes:
      - name: cert
        secret: {secretName: secret, optional: true}
"""

MODULE = "---".join(
    [
        CONFIG,
        SECRET,
        DEPLOYMENT,
        """
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager}
""",
        """
apiVersion: v1
kind: Service
metadata: {name: webhook}
spec:
  selector: {app: manager}
  ports: [{port: 443, targetPort: 9443}]
""",
        """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: manager}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
""",
        """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: manager}
subjects: [{kind: ServiceAccount, name: manager}]
""",
        """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAMESPACE-manager}
rules: [{apiGroups: [example.org], resources: ["*"], verbs: ["*"]}]
""",
        """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAMESPACE-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAMESPACE-manager}
subjects: [{kind: ServiceAccount, name: manager, namespace: NAMESPACE}]
""",
        """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: manager}
spec:
  podSelector: {matchLabels: {app: manager}}
  policyTypes: [Ingress]
  ingress: [{ports: [{port: 9443}]}]
""",
        """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: manager}
spec: {minAvailable: 1, selector: {matchLabels: {app: manager}}}
""",
        """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: NAMESPACE-hook}
webhooks:
- name: m.NAMESPACE.example.org
  clientConfig: {service: {name: webhook, namespace: NAMESPACE, path: /mutate}}
  admissionReviewVersions: [v1]
  sideEffects: None
  rules: [{apiGroups: [NAMESPACE.example.org], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]
""",
        """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE-hook}
webhooks:
- name: v.NAMESPACE.example.org
  clientConfig: {service: {name: webhook, namespace: NAMESPACE, path: /validate}}
  admissionReviewVersions: [v1]
  sideEffects: None
  rules: [{apiGroups: [NAMESPACE.example.org], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]
""",
    ]
)

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.NAMESPACE.example.org}
spec:
  group: NAMESPACE.example.org
  scope: Namespaced
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer, default: 1}, note: {type: string}}
"""

INSTANCE = """
apiVersion: NAMESPACE.example.org/v1
kind: Thing
metadata: {name: one}
spec: {note: hello}
"""
