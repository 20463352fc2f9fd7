"""
Exactly one verb in each sentence
=================================

A constraint over all words of a sentence is no sum over neighbours, so no chain can learn it. As a factor of each sample it holds in every
prediction, and training compares the truth with labellings that keep it. Here with synthetic sentences of five tags, three ways: without the
constraint, with the constraint in prediction alone, and in training as well. It is the prediction that gains here (about two points over five
seeds); training with the constraint as well changes the result by a point up or down, by the seed.

Run: ``python examples/one_verb.py``
"""

import numpy as np

import maxsum as ms

TAGS = ["adj", "det", "noun", "prep", "verb"]  # sorted: label k of a factor is the k-th class
VERB = TAGS.index("verb")
NEXT = np.array(  # which tag follows which
    [
        [0.2, 0.0, 0.7, 0.0, 0.1],
        [0.4, 0.0, 0.6, 0.0, 0.0],
        [0.1, 0.1, 0.1, 0.3, 0.4],
        [0.2, 0.6, 0.2, 0.0, 0.0],
        [0.2, 0.4, 0.2, 0.2, 0.0],
    ]
)


def sentence(rng, noise):
    """Features of words and their tags: with one verb, and features that tell tags only roughly."""
    while True:
        tags = [int(rng.integers(2))]
        for _ in range(int(rng.integers(4, 9))):
            tags.append(int(rng.choice(5, p=NEXT[tags[-1]])))
        if tags.count(VERB) == 1:
            break
    x = np.eye(5)[tags] + noise * rng.normal(size=(len(tags), 5))
    return x, [TAGS[tag] for tag in tags]


def samples(sentences, constrained):
    """Chains; with a factor that asks for one verb."""
    found = []
    for x, _ in sentences:
        one_verb = [ms.factors.exactly(np.arange(len(x)), 1, labels=VERB)] if constrained else None
        found.append(ms.GraphSample(x, ms.Graph.chain(len(x)), factors=one_verb))
    return found


rng = np.random.default_rng(0)
train, test = ([sentence(rng, 0.9) for _ in range(size)] for size in (40, 200))
truth, hidden = [tags for _, tags in train], [tags for _, tags in test]

models = {
    constrained: ms.GraphLabeler(C=1.0, classes=TAGS).fit(samples(train, constrained), truth) for constrained in (False, True)
}
for in_training, in_prediction in ((False, False), (False, True), (True, True)):
    model, asked = models[in_training], samples(test, in_prediction)
    predicted = model.predict(asked)
    kept = np.mean([list(tags).count("verb") == 1 for tags in predicted])
    words = f"constraint in training: {in_training!s:5}  in prediction: {in_prediction!s:5}"
    print(f"{words}  right tags: {model.score(asked, hidden):.1%}  sentences with one verb: {kept:.1%}")

model, asked = models[True], samples(test, True)
print("training:", model.result_.verify(model.objective_))
result, problem = model.predict_result(asked)[0], model.problems(asked)[0]
print("first sentence:", [TAGS[label] for label in result.labels], result.guarantee)
print(result.certificate.verify(problem, result.labels))
